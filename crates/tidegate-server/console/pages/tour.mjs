// Tour of the demo: a card in the corner that opens page after page.
import { html, useEffect, useRef, useState } from '../lib/html.mjs';
import { go } from '../lib/route.mjs';
import { Ring } from './tour/ring.mjs';
import { STEPS } from './tour/steps.mjs';

/** Whether arrows and Esc belong to an input or a dialog. @param {KeyboardEvent} event */
const elsewhere = (event) =>
  event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]') !== null ||
  (event.target instanceof HTMLElement && (event.target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)));

/** @param {{ close: () => void }} props */
export default function Tour({ close }) {
  const [at, setAt] = useState(0);
  const next = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const step = STEPS[at];
  const last = at === STEPS.length - 1;
  useEffect(() => {
    let over = false;
    const { where } = step;
    (typeof where === 'string' ? Promise.resolve(where) : where()).then((address) => !over && go(address), () => {});
    return () => {
      over = true;
    };
  }, [at]);
  useEffect(() => {
    next.current?.focus();
    /** @param {KeyboardEvent} event */
    function press(event) {
      if (elsewhere(event)) return;
      if (event.key === 'Escape') {
        event.stopImmediatePropagation();
        close();
      } else if (event.key === 'ArrowRight') setAt((before) => Math.min(STEPS.length - 1, before + 1));
      else if (event.key === 'ArrowLeft') setAt((before) => Math.max(0, before - 1));
    }
    // Listens in the capture phase, before the page's own shortcuts: Esc ends the tour, even if the
    // step has opened a drawer.
    addEventListener('keydown', press, true);
    return () => removeEventListener('keydown', press, true);
  }, []);
  return html`${step.look && html`<${Ring} look=${step.look} all=${step.all} />`}
    <section class="tour" role="dialog" aria-label="Tour">
      <div aria-live="polite"><h2>${step.title}</h2><p>${step.text}</p></div>
      <div class="tour-foot"><span class="faint num">${at + 1} of ${STEPS.length}</span>
        <span class="tour-dots" aria-hidden="true">${STEPS.map((_, i) => html`<i class=${i === at ? 'here' : i < at ? 'done' : ''}></i>`)}</span>
        <span class="actions">
          ${!last && html`<button type="button" class="quiet" onClick=${close} title="End the tour (Esc)">End</button>`}
          <button type="button" disabled=${at === 0} onClick=${() => setAt(at - 1)} title="Back (←)">Back</button>
          <button type="button" class="primary" ref=${next} onClick=${() => (last ? close() : setAt(at + 1))} title="Next (→)">${last ? 'Done' : 'Next'}</button>
        </span></div>
    </section>`;
}
