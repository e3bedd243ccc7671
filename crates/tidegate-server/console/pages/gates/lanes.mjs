import { html, useEffect, useRef, useState } from '../../lib/html.mjs';
import { controlsOf } from '../../ui/controls.mjs';
import { idOf } from './gate.mjs';
import { Hover } from './hover.mjs';
import { Lane, places } from './lane.mjs';

/** How wide the part is that says which gate it is. @param {number} width */
const labelled = (width) => Math.round(Math.max(196, Math.min(300, width * 0.27)));

/** @typedef {import('./gate.mjs').Gate} Gate */

/**
 * Lanes below each other; all of one width, so that gates stand below gates.
 *
 * @param {{ gates: Gate[], label: string, chosen: string | null, open: (gate: Gate) => void, workflows: any[] }} props
 */
export function Lanes({ gates, label, chosen, open, workflows }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const side = labelled(width);
  const at = places(width - side);
  return html`<section class="lanes" aria-label=${label} ref=${box} style=${{ '--label': `${side}px` }}>
    <div class="lanes-head" aria-hidden="true"><span style=${{ left: '12px' }}>Gate</span>
      ${width > 0 && html`<span style=${{ right: `${width - side - at.line + 12}px` }}>in line, the first at the right</span>
      <span style=${{ left: `${side + at.line + 4}px` }}>inside</span><span style=${{ left: `${side + at.exit + 10}px` }}>left</span>`}</div>
    ${gates.map((gate) => {
      const { it } = definitionOf(gate, workflows) ?? {};
      return html`<${Lane} key=${idOf(gate)} gate=${gate} width=${width - side} open=${open} chosen=${chosen === idOf(gate)}
        wholeMs=${it?.periodMs ?? it?.timeoutMs} maxSize=${it?.maxSize} />`;
    })}
    <${Hover} />
  </section>`;
}

/** The control that a gate belongs to, as its workflow defines it now. @param {Gate} gate @param {any[]} workflows */
export function definitionOf(gate, workflows) {
  const workflow = workflows.find((it) => it.app === gate.app && it.name === gate.workflow);
  const same = controlsOf(workflow?.flowControl).filter((it) => it.control === gate.control);
  const path = (/** @type {any} */ key) => (Array.isArray(key) ? key.join('.') : (key ?? ''));
  return same.find(({ it }) => path(it.key ?? it.keyField) === (gate.slot ?? '')) ?? same[0];
}
