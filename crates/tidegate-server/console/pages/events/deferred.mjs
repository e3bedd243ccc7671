// Deferred events and requests: those that wait for their delivery. Each can be cancelled before.
import { html } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { useList } from '../../lib/data.mjs';
import { go, route, to } from '../../lib/route.mjs';
import { Empty, Failed, Stale } from '../../ui/empty.mjs';
import { Json } from '../../ui/json.mjs';
import { State } from '../../ui/state.mjs';
import { Table } from '../../ui/table.mjs';
import { Time, Until } from '../../ui/time.mjs';
import { act } from '../../ui/toast.mjs';
import { askReason } from '../runs/reason.mjs';
import { brief } from './tail.mjs';

/** @typedef {{ id: string, kind: string, name: string, at: string, deliverAt: string, data?: any, dataBytes?: number, dedupeId?: string, requestId?: string }} Deferred */

/** Asks for confirmation with the event's content, then cancels its delivery. @param {Deferred} it @param {() => void} again */
export async function cancelDelivery(it, again) {
  const request = it.kind === 'request';
  const reason = await askReason({
    title: `Cancel this ${request ? 'request' : 'event'}?`,
    yes: `Cancel ${request ? 'request' : 'event'}`,
    label: request ? undefined : 'Reason (optional)',
    text: html`<p><b>${it.name}</b> would be delivered <${Until} at=${it.deliverAt} />, at <${Time} at=${it.deliverAt} />.
        ${request ? ' Its run ends as cancelled without a start.' : ' It starts no run and wakes none.'}${it.dedupeId && html` Its dedupeId <code>${it.dedupeId}</code> can be used again.`}</p>
      ${it.data === undefined ? html`<p class="faint">${brief(it)} of data.</p>` : html`<${Json} value=${it.data} label="Data" />`}`,
  });
  if (reason === null) return;
  await act(() => post(path`/deferred/${it.id}/cancel`, reason ? { reason } : {}), (answer) => `${answer.name} is not delivered.`);
  again();
}

/** @param {() => void} again */
const columns = (again) => /** @type {import('../../ui/table.mjs').Column[]} */ ([
  { name: 'Delivered', of: (it) => html`<${Until} at=${it.deliverAt} />` },
  { name: 'Kind', hide: true, of: (it) => html`<${State} state=${it.kind} />` },
  { name: 'Name', of: (it) => html`<b class="event-name">${it.name}</b>` },
  { name: 'Data', hide: true, of: (it) => html`<span class="id soft">${brief(it)}</span>` },
  { name: 'Sent', hide: true, of: (it) => html`<${Time} at=${it.at} />` },
  { name: '', of: (it) => html`<button type="button" class="quiet" aria-label=${`Cancel ${it.name}`} onClick=${() => cancelDelivery(it, again)}>Cancel …</button>` },
]);

/** List of deferred events and requests. */
export function Deferred() {
  const { query, rest } = route.value;
  const list = useList('/deferred', 'deferred', { limit: 100 }, (it) => it.id);
  if (list.error && list.items.length === 0) return html`<${Failed} error=${list.error} again=${list.again} />`;
  if (list.loading && list.items.length === 0) return html`<div class="empty" aria-busy="true">Loading …</div>`;
  if (list.items.length === 0) {
    return html`<${Empty} title="Nothing waits for its delivery">An event or request with <code>delayMs</code> or <code>deliverAt</code> is listed here until it is delivered:
      <div><pre>tidegate send trial/ends '${'{"user": 7}'}' --delay 1h</pre></div></${Empty}>`;
  }
  // A request has no page of its own before its delivery.
  const open = (/** @type {Deferred} */ it) => it.kind === 'event' && go(to(['events', it.id], Object.fromEntries(query)));
  return html`<${Stale} error=${list.error} />
    <div class="deferred"><${Table} label="Deferred events and requests" columns=${columns(list.again)} rows=${list.items} idOf=${(/** @type {Deferred} */ it) => it.id}
      chosen=${rest[0] ?? null} open=${open} more=${list.next ? list.more : null} busy=${list.busy} /></div>`;
}
