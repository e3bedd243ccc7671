import { html } from '../../lib/html.mjs';
import { path } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { to } from '../../lib/route.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { Empty, notYet } from '../../ui/empty.mjs';
import { Json } from '../../ui/json.mjs';
import { RunLink, WorkflowLink } from '../../ui/link.mjs';
import { State } from '../../ui/state.mjs';
import { Time, Took } from '../../ui/time.mjs';
import { Verdict } from '../../ui/verdict.mjs';
import { cancelDelivery } from './deferred.mjs';
import { Delivery, isDeferred } from './delivery.mjs';

/** Maximum length of data in an address. */
const FITS = 6000;

/** @param {{ event: any }} props */
function Runs({ event }) {
  const runs = /** @type {any[]} */ (event.runs ?? []);
  if (runs.length === 0) return html`<p class="faint">${event.receipts?.length ? 'None.' : 'None: no workflow has a trigger for this event name.'}</p>`;
  return html`<table class="table" aria-label="Runs of this event"><thead><tr><th scope="col">Status</th><th scope="col">Run</th><th scope="col">Workflow</th><th scope="col" class="num">Duration</th></tr></thead>
    <tbody>${runs.map((it) => html`<tr key=${it.id}><td><${State} state=${it.state} /></td><td><${RunLink} id=${it.id} /></td><td><${WorkflowLink} app=${it.app} name=${it.workflow} version=${it.version} /></td>
      <td class="num"><${Took} from=${it.queuedAt} to=${it.endedAt} /></td></tr>`)}</tbody></table>`;
}

/** @param {{ event: any }} props */
function Became({ event }) {
  const receipts = /** @type {any[]} */ (event.receipts ?? []);
  const told = new Set(receipts.map((it) => it.workflow));
  const plain = /** @type {any[]} */ (event.runs ?? []).filter((it) => !told.has(it.workflow));
  if (receipts.length + plain.length === 0) return html`<p class="faint">The event was recorded. It started no workflow.</p>`;
  return html`<ul class="became">
    ${receipts.map((it) => html`<li><${State} state=${it.outcome} /> <${WorkflowLink} app=${it.app} name=${it.workflow} /><p><${Verdict} of=${it} />${it.keyMissing ? html` <span class="faint">(key missing)</span>` : ''}</p></li>`)}
    ${plain.map((it) => html`<li><${State} state="started" /> <${WorkflowLink} app=${it.app} name=${it.workflow} /><p>started at once as <${RunLink} id=${it.id} /></p></li>`)}
  </ul>`;
}

/** @param {{ id: string, close: () => void }} props */
export function EventDetail({ id, close }) {
  const told = useFetched(path`/events/${id}`);
  const event = told.value;
  if (!event && /** @type {any} */ (told.error)?.code === 'no_event') {
    return html`<${Drawer} title="Event" close=${close}><${Empty} title="Event not found">
      <p><code>${id}</code></p><p>Requests, schedules and children create runs without an event, and events are deleted when their retention ends. <a href=${to('runs', { event: id })}>Runs of this event</a> may still exist.</p></${Empty}></${Drawer}>`;
  }
  const data = event?.data === undefined ? '' : JSON.stringify(event.data);
  return html`<${Drawer} title=${event ? event.name : 'Event'} close=${close}>
    ${notYet(told) ?? html`
      <dl class="pairs">
        <dt>Event</dt><dd><code>${event.id}</code></dd>
        <dt>Received at</dt><dd><${Time} at=${event.at} /></dd>
        ${event.ts && html`<dt>Occurred at</dt><dd><${Time} at=${event.ts} /> <span class="faint">by the sender's clock</span></dd>`}
        ${event.deliverAt && html`<dt>Delivery</dt><dd><${Delivery} of=${event} />${event.cancelledAt && html` <span class="faint"><${Time} at=${event.cancelledAt} /></span>`}</dd>`}
        ${event.dedupeId && html`<dt>dedupeId</dt><dd><code>${event.dedupeId}</code></dd>`}
      </dl>
      ${isDeferred(event)
        ? !event.cancelledAt && html`<p><button type="button" onClick=${() => cancelDelivery({ ...event, kind: 'event' }, told.again)}>Cancel …</button></p>`
        : html`<section><h3>Verdicts</h3><${Became} event=${event} /></section>
      <section><h3>Runs</h3><${Runs} event=${event} /></section>`}
      <section><h3>Data</h3><${Json} value=${event.data} label="Data" /></section>
      <p><a class="button" href=${to('try', { name: event.name, data: data.length < FITS ? data : undefined })}>Send again …</a></p>`}
  </${Drawer}>`;
}
