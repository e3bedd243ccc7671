// An outline around what is meant, which follows it while the page moves.
import { html, useEffect, useState } from '../../lib/html.mjs';

/** How often it is looked for. */
const OFTEN = 250;
const AROUND = 5;

/** @param {string[]} look @returns {Element | null} */
const find = (look) => look.map((it) => document.querySelector(it)).find((it) => it && it.getClientRects().length > 0) ?? null;

/** @param {{ look: string[] }} props */
export function Ring({ look }) {
  const [box, setBox] = useState(/** @type {{ x: number, y: number, w: number, h: number } | null} */ (null));
  useEffect(() => {
    setBox(null);
    let shown = false;
    const timer = setInterval(() => {
      const found = find(look);
      if (!found) {
        setBox(null);
        return;
      }
      if (!shown) found.scrollIntoView({ block: 'nearest' });
      shown = true;
      const at = found.getBoundingClientRect();
      const next = { x: at.left - AROUND, y: at.top - AROUND, w: at.width + 2 * AROUND, h: Math.min(at.height + 2 * AROUND, innerHeight - at.top - 2) };
      setBox((before) => (before && before.x === next.x && before.y === next.y && before.w === next.w && before.h === next.h ? before : next));
    }, OFTEN);
    return () => clearInterval(timer);
  }, [look]);
  if (!box) return null;
  return html`<div class="tour-ring" aria-hidden="true" style=${{ left: `${box.x}px`, top: `${box.y}px`, width: `${box.w}px`, height: `${box.h}px` }}></div>`;
}
