import { html } from '../../lib/html.mjs';
import { count } from '../../lib/format.mjs';
import { Fill } from '../../ui/fill.mjs';
import { letsIn } from '../../ui/controls.mjs';
import { RunLink } from '../../ui/link.mjs';
import { Badge } from '../../ui/state.mjs';
import { Table } from '../../ui/table.mjs';
import { Took, Until } from '../../ui/time.mjs';
import { idOf, kindOf, shutOf, takenOf } from './gate.mjs';
import { Key, Of } from './label.mjs';

/** @typedef {import('./gate.mjs').Gate} Gate */

/** Next action of a meter, a window or a claim. @param {Gate} gate */
function next(gate) {
  const kind = kindOf(gate);
  if (kind === 'fold') return gate.until ? html`${gate.control === 'batch' ? 'flushes' : 'fires'} <${Until} at=${gate.until} />` : html`<span class="faint">waiting for a running run</span>`;
  if (kind === 'claim') return html`expires <${Until} at=${gate.until} />`;
  if (kind === 'meter') return (gate.tokens ?? 0) > 0 ? `${count(gate.tokens ?? 0)} can pass now` : html`next <${Until} at=${gate.nextAt} />`;
  return '';
}

/** Usage: runs inside, tokens left, or collected events. @param {Gate} gate */
function inside(gate) {
  if (gate.pending !== undefined) return html`<span class="num">${count(gate.pending)}</span> <span class="faint">${gate.pending === 1 ? 'event' : 'events'}</span>`;
  if (kindOf(gate) === 'meter') return gate.burst ? html`<${Fill} value=${gate.tokens ?? 0} of=${gate.burst} label="left" tone="left" />` : '';
  return gate.inside === undefined ? '' : html`<${Fill} value=${takenOf(gate)} of=${gate.limit} label=${gate.units === undefined ? 'inside' : 'units'} />`;
}

/** First queued runs. @param {string[]} ids */
const few = (ids) => html`${ids.slice(0, 2).map((id, i) => html`${i > 0 ? ' ' : ''}<${RunLink} id=${id} />`)}`;

const COLUMNS = /** @type {import('../../ui/table.mjs').Column[]} */ ([
  { name: 'Gate', of: (gate) => html`<${Badge} tone="accent">${gate.control}</${Badge}> <span class="cell of"><${Of} gate=${gate} /></span>` },
  { name: 'Key', of: (gate) => html`<span class="cell key"><${Key} gate=${gate} /></span>` },
  { name: 'Limit', of: (gate) => html`<span class="soft" title=${gate.letsIn}>${shutOf(gate) ? html`<b class="shut">${shutOf(gate)}</b>` : letsIn(gate)}</span>` },
  { name: 'Inside', title: 'runs inside and the limit; for a meter the tokens left; for a window or buffer its events', of: inside },
  { name: 'Queued', num: true, of: (gate) => (gate.line?.count ? html`<b>${count(gate.line.count)}${gate.line.atLeast ? '+' : ''}</b>` : html`<span class="faint">0</span>`) },
  { name: 'Next in queue', hide: true, of: (gate) => few(gate.line?.first ?? []) },
  { name: 'Oldest', num: true, title: 'age of the oldest of the first ten queued runs', of: (gate) => (gate.line?.since ? html`<${Took} from=${gate.line.since} />` : '') },
  { name: 'Next', hide: true, of: next },
]);

/** @param {{ gates: Gate[], label: string, chosen: string | null, open: (gate: Gate) => void }} props */
export const GateTable = ({ gates, label, chosen, open }) =>
  html`<div class="gate-table"><${Table} columns=${COLUMNS} rows=${gates} idOf=${idOf} open=${open} label=${label} chosen=${chosen} /></div>`;
