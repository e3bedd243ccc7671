import { html } from '../lib/html.mjs';
import { keyNote } from '../lib/format.mjs';
import { EventLink, RunLink } from './link.mjs';
import { Time } from './time.mjs';

/** End of the run that the receipt names. @param {any} of */
const ended = (of) => html`, which was cancelled (${of.reason}); the survivor is <${RunLink} id=${of.survivor} />`;

/** Verdict on an event in words, with links to the runs. @param {{ of: any }} props `of`: a receipt or an outcome */
export function Verdict({ of }) {
  const gate = of.control ? html` ${of.control}${keyNote(of.key)}` : '';
  const run = of.runId ? html`<${RunLink} id=${of.runId} />` : 'a run';
  switch (of.outcome) {
    case 'started': return html`started ${run}`;
    case 'queued': if (of.control === 'workers') return html`${run} is ready, waiting for a worker`;
      return html`${run} was queued at${gate}${of.startAt ? html`, estimated start <${Time} at=${of.startAt} />` : ''}`;
    case 'coalesced': return html`merged by${gate} into ${run}${of.survivor ? ended(of) : of.fireAt ? html`, due at <${Time} at=${of.fireAt} />` : ''}`;
    case 'buffered': return html`collected by${gate} for ${run}${of.survivor ? ended(of) : ''}${of.pending ? html` as number ${of.pending}` : ''}${of.flushAt ? html`, due at <${Time} at=${of.flushAt} />` : ''}`;
    case 'dropped': return html`dropped by${gate}${of.retryAt ? html`; accepted again from <${Time} at=${of.retryAt} />` : ''}`;
    case 'skipped': return html`skipped by${gate}${of.holder ? html`: held by <${RunLink} id=${of.holder} />` : ''}`;
    case 'deduped': return html`duplicate${of.control ? html`, found by${gate}` : ''}${of.firstRunId ? html`; first run <${RunLink} id=${of.firstRunId} />` : ''}${of.first ? html` (<${EventLink} id=${of.first} />)` : ''}`;
    case 'replaced': return html`${run} replaced ${of.replaced ? html`<${RunLink} id=${of.replaced} />` : 'another run'} at${gate}`;
    case 'rejected': return html`rejected${of.control ? html` by${gate}` : ''}: ${of.detail ?? of.reason ?? 'a required key is missing'}`;
    default: return html`${of.outcome}`;
  }
}
