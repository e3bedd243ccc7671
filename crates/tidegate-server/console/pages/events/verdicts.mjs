import { html } from '../../lib/html.mjs';
import { State } from '../../ui/state.mjs';

/** So many are named in a row. */
const NAMED = 3;

/** What became of an event, in a row. @param {{ receipts: any[] | null, taken: boolean }} props `taken`: a workflow takes events of this name */
export function Verdicts({ receipts, taken }) {
  if (receipts === null) return html`<span class="faint">…</span>`;
  if (receipts.length === 0) return html`<span class="faint">${taken ? 'let through at once' : 'no workflow takes it'}</span>`;
  return html`<span class="verdicts">${receipts.slice(0, NAMED).map((it) => html`<span title=${`${it.workflow}: ${it.outcome}${it.control ? ` by ${it.control} of ${it.key}` : ''}`}><${State} state=${it.outcome} /> <span class="soft">${it.workflow}</span></span>`)}${
    receipts.length > NAMED ? html` <span class="faint">and ${receipts.length - NAMED} more</span>` : ''}</span>`;
}
