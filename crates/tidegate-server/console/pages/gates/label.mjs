import { html } from '../../lib/html.mjs';
import { count, moment, plural } from '../../lib/format.mjs';
import { letsIn } from '../../ui/controls.mjs';
import { Badge } from '../../ui/state.mjs';
import { Took } from '../../ui/time.mjs';
import { closingOf, fieldOf, isFull, keyWords, kindOf, ownerOf, shutOf, workflowAddress } from './gate.mjs';

/** @typedef {import('./gate.mjs').Gate} Gate */

/** Characters of a field and a key that fit beside the name of a workflow. */
const WIDE = 16;

/** @typedef {{ control: string, app: string, workflow: string, pool?: string, slot?: string, key: string }} Named */

/** Workflow of a gate, or its flow. @param {{ gate: Named }} props */
export const Of = ({ gate }) => html`<a class="gate-of" href=${workflowAddress(gate)}>${ownerOf(gate)}${gate.app === 'default' || gate.pool ? '' : html` <span class="faint">${gate.app}</span>`}</a>`;

/** Key of a gate: `accountId = 7`, the whole path as a tooltip. Without the field where both are longer than `room`.
 *  @param {{ gate: Named, room?: number }} props */
export function Key({ gate, room = Infinity }) {
  if (gate.key.startsWith('(')) return html`<span class="gate-key faint">${keyWords(gate)}</span>`;
  const field = fieldOf(gate).split('.').at(-1) ?? '';
  const shown = field && field.length + gate.key.length <= room;
  return html`<span class="gate-key" title=${keyWords(gate)}>${shown && html`<span class="faint">${field} =</span> `}<code>${gate.key}</code></span>`;
}

/**
 * Label at the left of a lane; in the narrow styles the key replaces the parts that the slots show.
 *
 * @param {{ gate: Gate, style: 'wide' | 'narrow' | 'brief' }} props
 */
export function Label({ gate, style }) {
  const kind = kindOf(gate);
  const line = gate.line?.count ?? 0;
  const shut = shutOf(gate);
  const key = html`<${Key} gate=${gate} room=${style === 'wide' ? WIDE : undefined} />`;
  const parts = /** @type {any[]} */ ([
    style === 'narrow' && key,
    shut && html`<b class="shut" title=${shutWords(gate)}>${shut}</b>`,
    style === 'wide' && kind !== 'fold' && gate.letsIn !== 'closed' && letsIn(gate),
    kind === 'fold' && plural(gate.pending ?? 0, 'event'),
    kind === 'slots' && (style !== 'brief' || line === 0) && (isFull(gate) && style === 'wide' ? 'full' : `${count(gate.inside ?? 0)} inside`),
    kind === 'slots' && gate.units !== undefined && `${count(gate.units)} units`,
    gate.overrides?.some((it) => it.limit || it.perMs || it.burst) && html`<span title="an override replaces the limit of the definition">overridden</span>`,
    line > 0 && html`<b class="in-line">${count(line)}${gate.line?.atLeast ? '+' : ''} queued</b>${gate.line?.since && style !== 'brief' ? html`, <span title="age of the oldest queued run"><${Took} from=${gate.line.since} /></span>` : ''}`,
  ]).filter(Boolean);
  return html`<div class=${`lane-label ${style}`}>
    ${style === 'brief' ? html`<div class="lane-name">${key}</div>`
      : html`<div class="lane-name"><${Badge} tone="accent">${gate.control}</${Badge}><${Of} gate=${gate} />${style === 'wide' && key}</div>`}
    <div class="lane-sub faint num">${parts.map((part, i) => html`${i > 0 ? ' · ' : ''}${part}`)}</div>
  </div>`;
}

/** Author, reason and end of what closes a gate. @param {Gate} gate */
function shutWords(gate) {
  const by = closingOf(gate);
  if (!by) return gate.closed ? `by ${gate.closed.by} until ${moment(gate.closed.until)}` : '';
  const until = by.closedUntil ?? by.expiresAt;
  return [by.author && `by ${by.author}`, until && `until ${moment(until)}`, by.reason].filter(Boolean).join(', ');
}

/** Text of a lane for screen readers. @param {Gate} gate */
export function said(gate) {
  const parts = [`${gate.control} of ${ownerOf(gate)}, ${keyWords(gate)}`];
  const shut = shutOf(gate);
  if (shut) parts.push(`${shut} ${shutWords(gate)}`);
  if (gate.limit !== undefined) parts.push(letsIn(gate));
  if (gate.inside !== undefined) parts.push(`${gate.inside} inside`);
  if (gate.line) parts.push(`${gate.line.count} queued`);
  if (gate.pending !== undefined) parts.push(plural(gate.pending, 'event'));
  return parts.join('; ');
}
