// Describes the verdict of one workflow on an event in words.
import { html } from '../../lib/html.mjs';
import { keyNote, plural } from '../../lib/format.mjs';
import { RunLink, WorkflowLink } from '../../ui/link.mjs';
import { State } from '../../ui/state.mjs';
import { Time, Until } from '../../ui/time.mjs';

/** @typedef {{ workflow?: string, outcome: string, runId?: string, control?: string, key?: string, keyMissing?: boolean, startAt?: string, fireAt?: string,
 *   flushAt?: string, retryAt?: string, pending?: number, holder?: string, replaced?: string, firstRunId?: string, detail?: string }} Verdict */

/** Whether a run exists: runs of a dry run have an id of zeros. @param {string | undefined} id */
const real = (id) => Boolean(id) && !/^run_0{10}/.test(/** @type {string} */ (id));

/** @param {{ it: Verdict, dry?: boolean }} props */
function Words({ it, dry }) {
  const gate = it.control && html`<b>${it.control}</b>${keyNote(it.key)}`;
  const run = real(it.runId) ? html` <${RunLink} id=${it.runId} />` : null;
  switch (it.outcome) {
    case 'started':
      return dry ? 'starts at once' : html`starts as${run}`;
    case 'queued':
      return html`is queued at ${gate ?? 'a gate'}${it.startAt ? html`, starts <${Until} at=${it.startAt} />` : null}${run && html` as${run}`}`;
    case 'coalesced':
      return html`is merged by ${gate}${it.fireAt ? html`, which fires <${Until} at=${it.fireAt} />` : null}${run && html` as${run}`}`;
    case 'buffered':
      return html`is collected by ${gate}${it.pending ? `, ${it.pending} so far` : ''}${it.flushAt ? html`, flushed <${Until} at=${it.flushAt} />` : null}${run && html` as${run}`}`;
    case 'dropped':
      return html`dropped by ${gate}${it.retryAt ? html`; accepted again from <${Time} at=${it.retryAt} />` : null}`;
    case 'skipped':
      return html`skipped by ${gate}${real(it.holder) ? html`: <${RunLink} id=${it.holder} /> is inside` : null}`;
    case 'deduped':
      return html`duplicate${gate ? html`, found by ${gate},` : null}${real(it.firstRunId) ? html` of <${RunLink} id=${it.firstRunId} />` : null}`;
    case 'replaced':
      return html`starts${run && html` as${run}`} and replaces ${real(it.replaced) ? html`<${RunLink} id=${it.replaced} />` : 'the previous run'}`;
    default:
      return html`${it.detail ?? gate}${run}`;
  }
}

/** @param {{ it: Verdict, dry?: boolean }} props */
export const VerdictLine = ({ it, dry }) =>
  html`<li class="told-line"><span class="told-state"><${State} state=${it.outcome} /></span>
    <span>${it.workflow && html`<${WorkflowLink} name=${it.workflow} /> `}<span class="soft"><${Words} it=${it} dry=${dry} />${it.keyMissing ? ' (the key is missing)' : ''}</span></span></li>`;

/** All verdicts on one event; an event without a matching workflow has one too. @param {any} event @returns {Verdict[]} */
export function verdictsOf(event) {
  if (event.deduped) return [{ outcome: 'deduped', detail: 'duplicate event' }];
  const detail = event.cancelled > 0 ? `cancelled ${plural(event.cancelled, 'run')} by cancelOn` : 'no matching workflow';
  return event.runs.length > 0 ? event.runs : [{ outcome: 'recorded', detail }];
}
