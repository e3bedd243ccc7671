// Events: a live tail with verdicts, receipts, and deferred events.
import { html } from '../lib/html.mjs';
import { go, route, to } from '../lib/route.mjs';
import { Deferred } from './events/deferred.mjs';
import { EventDetail } from './events/detail.mjs';
import { Receipts } from './events/receipts.mjs';
import { EventTail } from './events/tail.mjs';

/** Views of the page: name, label, description, component. @type {[string, string, string, any][]} */
const VIEWS = [
  ['', 'Live tail', 'Live events and their verdicts.', EventTail],
  ['receipts', 'Receipts', 'Events that were dropped, skipped, merged, collected, queued or deduped, and the surviving run.', Receipts],
  ['deferred', 'Deferred', 'Events and requests that are delivered later. Each can be cancelled before.', Deferred],
];

export default function Events() {
  const { rest, query } = route.value;
  const [here, , says, View] = VIEWS.find(([name]) => name === query.get('tab')) ?? VIEWS[0];
  const [id] = rest;
  return html`
    <div class="page-head"><h1>Events</h1><p>${says}</p></div>
    <nav class="tabs" aria-label="Views of events">
      ${VIEWS.map(([name, label]) => html`<a href=${to('events', { tab: name || undefined })} aria-current=${name === here ? 'page' : undefined}>${label}</a>`)}
    </nav>
    <${View} />
    ${id && html`<${EventDetail} key=${id} id=${id} close=${() => go(to('events', Object.fromEntries(query)))} />`}`;
}
