import { html } from '../../lib/html.mjs';
import { count, plural } from '../../lib/format.mjs';
import { letsIn } from '../../ui/controls.mjs';
import { Badge } from '../../ui/state.mjs';
import { Took } from '../../ui/time.mjs';
import { keyWords, kindOf, workflowAddress } from './gate.mjs';

/** @typedef {import('./gate.mjs').Gate} Gate */

/** @typedef {{ control: string, app: string, workflow: string, slot?: string, key: string }} Named */

/** The workflow, or the flow, that a gate is of. @param {{ gate: Named }} props */
export const Of = ({ gate }) => html`<a class="gate-of" href=${workflowAddress(gate)}>${gate.workflow}${gate.app === 'default' ? '' : html` <span class="faint">${gate.app}</span>`}</a>`;

/** The key of a gate, and what it was read from. @param {{ gate: Named }} props */
export const Key = ({ gate }) => html`<span class="gate-key" title=${gate.slot ? `the key is read from ${gate.slot}` : undefined}>${
  gate.key.startsWith('(') ? html`<span class="faint">${keyWords(gate)}</span>` : html`<code>${gate.key}</code>`}</span>`;

/**
 * What stands at the left of a lane; where there is little room, the key takes the place of what the
 * slots show.
 *
 * @param {{ gate: Gate, style: 'wide' | 'narrow' | 'brief' }} props
 */
export function Label({ gate, style }) {
  const kind = kindOf(gate);
  const line = gate.line?.count ?? 0;
  const key = html`<${Key} gate=${gate} />`;
  const parts = /** @type {any[]} */ ([
    style === 'narrow' && key,
    style === 'wide' && kind !== 'fold' && letsIn(gate),
    kind === 'fold' && plural(gate.pending ?? 0, 'event'),
    kind === 'slots' && (style !== 'brief' || line === 0) && (gate.limit !== undefined && (gate.inside ?? 0) >= gate.limit && style === 'wide' ? 'full' : `${count(gate.inside ?? 0)} inside`),
    line > 0 && html`<b class="in-line">${count(line)}${gate.line?.atLeast ? '+' : ''} in line</b>${gate.line?.since && style !== 'brief' ? html`, <span title="how long the oldest has waited"><${Took} from=${gate.line.since} /></span>` : ''}`,
  ]).filter(Boolean);
  return html`<div class=${`lane-label ${style}`}>
    ${style === 'brief' ? html`<div class="lane-name">${key}</div>`
      : html`<div class="lane-name"><${Badge} tone="accent">${gate.control}</${Badge}><${Of} gate=${gate} />${style === 'wide' && key}</div>`}
    <div class="lane-sub faint num">${parts.map((part, i) => html`${i > 0 ? ' · ' : ''}${part}`)}</div>
  </div>`;
}

/** A gate in a sentence, for who cannot see the lane. @param {Gate} gate */
export function said(gate) {
  const parts = [`${gate.control} of ${gate.workflow}, ${keyWords(gate)}`];
  if (gate.limit !== undefined) parts.push(letsIn(gate));
  if (gate.inside !== undefined) parts.push(`${gate.inside} inside`);
  if (gate.line) parts.push(`${gate.line.count} in line`);
  if (gate.pending !== undefined) parts.push(plural(gate.pending, 'event'));
  return parts.join('; ');
}
