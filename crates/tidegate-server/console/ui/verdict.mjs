import { html } from '../lib/html.mjs';
import { EventLink, RunLink } from './link.mjs';
import { Time } from './time.mjs';

/** What became of the run that it names. @param {any} of */
const ended = (of) => html`, which was cancelled (${of.reason}); the survivor is <${RunLink} id=${of.survivor} />`;

/** What admission said of an event, in words, with a way to the survivor. @param {{ of: any }} props `of`: a receipt or an outcome */
export function Verdict({ of }) {
  const gate = of.control ? html` ${of.control}${of.key ? html` of <code>${of.key}</code>` : ''}` : '';
  const run = of.runId ? html`<${RunLink} id=${of.runId} />` : 'a run';
  switch (of.outcome) {
    case 'started': return html`started ${run}`;
    case 'queued': if (of.control === 'workers') return html`${run} is ready and waits for a worker`;
      return html`${run} was put in line at${gate}${of.startAt ? html`, to start about <${Time} at=${of.startAt} />` : ''}`;
    case 'coalesced': return html`merged by${gate} into ${run}${of.survivor ? ended(of) : of.fireAt ? html`, then due <${Time} at=${of.fireAt} />` : ''}`;
    case 'buffered': return html`collected by${gate} for ${run}${of.survivor ? ended(of) : ''}${of.pending ? html`, number ${of.pending}` : ''}${of.flushAt ? html`, due <${Time} at=${of.flushAt} />` : ''}`;
    case 'dropped': return html`dropped by${gate}${of.retryAt ? html`; room again at <${Time} at=${of.retryAt} />` : ''}`;
    case 'skipped': return html`skipped by${gate}${of.holder ? html`, which <${RunLink} id=${of.holder} /> held` : ''}`;
    case 'deduped': return html`recognised as a repeat${of.control ? html` by${gate}` : ''}${of.firstRunId ? html`; the first one made <${RunLink} id=${of.firstRunId} />` : ''}${of.first ? html` (<${EventLink} id=${of.first} />)` : ''}`;
    case 'replaced': return html`${run} took the place${of.replaced ? html` of <${RunLink} id=${of.replaced} />` : ''} at${gate}`;
    case 'rejected': return html`refused${of.control ? html` by${gate}` : ''}: ${of.detail ?? of.reason ?? 'a key that is needed is missing'}`;
    default: return html`${of.outcome}`;
  }
}
