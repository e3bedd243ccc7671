import { html, signal, useEffect } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';
import { path } from '../../lib/api.mjs';
import { State } from '../../ui/state.mjs';
import { Took } from '../../ui/time.mjs';

/** Run under the pointer, and its position. */
export const hovered = signal(/** @type {{ id: string, where: string, since: number, x: number, y: number } | null} */ (null));
/** @type {number | undefined} */
let timer;

/** @param {MouseEvent} event @param {{ id: string, where: string, since: number }} token */
export function enter(event, token) {
  const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
  clearTimeout(timer);
  timer = setTimeout(() => (hovered.value = { ...token, x: box.left, y: box.bottom }), 120);
}
export function leave() {
  clearTimeout(timer);
  hovered.value = null;
}

/** Tooltip for runs in lanes; fetches the run only on hover. Once per page. */
export function Hover() {
  useEffect(() => leave, []);
  const at = hovered.value;
  return at ? html`<${Card} key=${at.id} ...${at} />` : null;
}

const WHERE = /** @type {Record<string, string>} */ ({ line: 'in this queue for', in: 'inside for', coming: 'collecting for', took: 'holding the claim for', left: 'left' });

/** @param {{ id: string, where: string, since: number, x: number, y: number }} props */
function Card({ id, where, since, x, y }) {
  const why = useFetched(path`/runs/${id}/why`, {}, { live: false });
  const run = useFetched(where === 'coming' ? null : path`/runs/${id}`, {}, { live: false });
  const left = Math.max(8, Math.min(x - 20, innerWidth - 350));
  const top = y + 150 > innerHeight ? y - 160 : y + 6;
  return html`<div class="hover-card" role="tooltip" style=${{ left: `${left}px`, top: `${top}px` }}>
    <p><code>${id}</code></p>
    ${run.value && html`<p><${State} state=${run.value.state} /> <span class="faint">${run.value.workflow} v${run.value.version}</span></p>
      <p class="faint">queued <${Took} from=${run.value.queuedAt} /> ago${where === 'left' ? '' : html`, ${WHERE[where]} <${Took} from=${since} /> or more`}</p>`}
    ${why.value && html`<p class="soft">${why.value.sentence}</p>`}
    ${!why.value && !why.error && html`<p class="faint">Loading …</p>`}
  </div>`;
}
