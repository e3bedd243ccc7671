import { html } from '../../lib/html.mjs';
import { keyNote } from '../../lib/format.mjs';
import { State } from '../../ui/state.mjs';

/** Number of verdicts shown per row. */
const NAMED = 3;

/** Verdicts on an event, in a table row. @param {{ receipts: any[] | null, taken: boolean }} props `taken`: a workflow has a trigger for this event name */
export function Verdicts({ receipts, taken }) {
  if (receipts === null) return html`<span class="faint">…</span>`;
  if (receipts.length === 0) return html`<span class="faint">${taken ? 'started at once' : 'no matching workflow'}</span>`;
  return html`<span class="verdicts">${receipts.slice(0, NAMED).map((it) => html`<span title=${`${it.workflow}: ${it.outcome}${it.control ? ` by ${it.control}${keyNote(it.key)}` : ''}`}><${State} state=${it.outcome} /> <span class="soft">${it.workflow}</span></span>`)}${
    receipts.length > NAMED ? html` <span class="faint">and ${receipts.length - NAMED} more</span>` : ''}</span>`;
}
