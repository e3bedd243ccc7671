// Runs inside a gate and queued runs, each as a small link.
import { html } from '../../lib/html.mjs';
import { count } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';

/** Number of queued runs drawn. */
const DRAWN = 10;

/** @param {{ id: string, tone: string, action?: string }} props */
const Chip = ({ id, tone, action }) =>
  html`<a class=${`pass ${tone}`} href=${to(['runs', id])} title=${`${action ?? 'request'} ${id}`}>${action ?? '·'}</a>`;

/** @param {{ gate: any, actions: Map<string, string> }} props */
export function Inside({ gate, actions }) {
  const draining = new Set(gate.draining ?? []);
  const ids = /** @type {string[]} */ (gate.holders ?? []);
  if (ids.length === 0) return html`<span class="faint">none</span>`;
  return html`<span class="standing">${ids.map((id) => html`<${Chip} key=${id} id=${id} tone=${draining.has(id) ? 'still' : 'go'} action=${actions.get(id)} />`)}</span>`;
}

/** @param {{ gate: any, actions: Map<string, string> }} props */
export function InLine({ gate, actions }) {
  const n = gate.line?.count ?? 0;
  if (n === 0) return html`<span class="faint">–</span>`;
  const ids = /** @type {string[]} */ (gate.line.first).slice(0, DRAWN);
  return html`<span class="standing"><b class="num wait-text">${count(n)}${gate.line.atLeast ? '+' : ''}</b>
    ${ids.map((id) => html`<${Chip} key=${id} id=${id} tone="wait" action=${actions.get(id)} />`)}</span>`;
}
