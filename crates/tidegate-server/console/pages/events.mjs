// Events: a live tail with verdicts, and receipts.
import { html } from '../lib/html.mjs';
import { go, route, to } from '../lib/route.mjs';
import { EventDetail } from './events/detail.mjs';
import { Receipts } from './events/receipts.mjs';
import { EventTail } from './events/tail.mjs';

export default function Events() {
  const { rest, query } = route.value;
  const receipts = query.get('tab') === 'receipts';
  const [id] = rest;
  return html`
    <div class="page-head"><h1>Events</h1><p>${receipts ? 'Events that were dropped, skipped, merged, collected, queued or deduped, and the surviving run.' : 'Live events and their verdicts.'}</p></div>
    <nav class="tabs" aria-label="Events or receipts">
      <a href=${to('events')} aria-current=${receipts ? undefined : 'page'}>Live tail</a>
      <a href=${to('events', { tab: 'receipts' })} aria-current=${receipts ? 'page' : undefined}>Receipts</a>
    </nav>
    ${receipts ? html`<${Receipts} />` : html`<${EventTail} />`}
    ${id && html`<${EventDetail} key=${id} id=${id} close=${() => go(to('events', Object.fromEntries(query)))} />`}`;
}
