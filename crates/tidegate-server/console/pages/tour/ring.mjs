// Outline around the element that a tour step explains; it follows the element when the page
// scrolls or changes.
import { html, useEffect, useState } from '../../lib/html.mjs';

/** Interval in ms at which the element is located. */
const OFTEN = 250;
const AROUND = 2;
/** Height at the bottom of the window that the card of the tour covers. */
const FOOT = 200;

/** @param {string[]} look @param {boolean} all @returns {Element[]} */
function find(look, all) {
  for (const selector of look) {
    const found = [...document.querySelectorAll(selector)].filter((it) => it.getClientRects().length > 0);
    if (found.length > 0) return all ? found : found.slice(0, 1);
  }
  return [];
}

/** Scrolls the element into view, above the card. @param {Element} it */
function bring(it) {
  const { top, bottom, height } = it.getBoundingClientRect();
  if (top < 0 || bottom > innerHeight - FOOT) it.scrollIntoView({ block: height < innerHeight - 2 * FOOT ? 'center' : 'start' });
}

/** Bounding box of the elements, within the window. @param {Element[]} found */
function around(found) {
  const boxes = found.map((it) => it.getBoundingClientRect());
  const [x, y] = [Math.min(...boxes.map((it) => it.left)) - AROUND, Math.max(2, Math.min(...boxes.map((it) => it.top)) - AROUND)];
  const [right, bottom] = [Math.max(...boxes.map((it) => it.right)) + AROUND, Math.min(innerHeight - 2, Math.max(...boxes.map((it) => it.bottom)) + AROUND)];
  return { x, y, w: right - x, h: bottom - y };
}

/** @param {{ look: string[], all?: boolean }} props */
export function Ring({ look, all = false }) {
  const [box, setBox] = useState(/** @type {ReturnType<typeof around> | null} */ (null));
  useEffect(() => {
    setBox(null);
    let shown = false;
    const timer = setInterval(() => {
      const found = find(look, all);
      if (found.length === 0) {
        setBox(null);
        return;
      }
      if (!shown) bring(found[0]);
      shown = true;
      const next = around(found);
      setBox((before) => (JSON.stringify(before) === JSON.stringify(next) ? before : next));
    }, OFTEN);
    return () => clearInterval(timer);
  }, [look]);
  if (!box) return null;
  return html`<div class="tour-ring" aria-hidden="true" style=${{ left: `${box.x}px`, top: `${box.y}px`, width: `${box.w}px`, height: `${box.h}px` }}></div>`;
}
