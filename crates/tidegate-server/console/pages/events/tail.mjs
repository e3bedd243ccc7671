import { html, useMemo, useState } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';
import { count, plural } from '../../lib/format.mjs';
import { go, route, to } from '../../lib/route.mjs';
import { Empty, Failed, Stale } from '../../ui/empty.mjs';
import { Search } from '../../ui/field.mjs';
import { EventLink } from '../../ui/link.mjs';
import { Table } from '../../ui/table.mjs';
import { Time } from '../../ui/time.mjs';
import { Delivery, isDeferred } from './delivery.mjs';
import { useTail } from './use-tail.mjs';
import { useVerdicts } from './use-verdicts.mjs';
import { Verdicts } from './verdicts.mjs';

/** Whether a name matches: exactly, or by a prefix with `*`. @param {string} name @param {string} asked */
const matches = (name, asked) => (asked.endsWith('*') ? name.startsWith(asked.slice(0, -1)) : name === asked);

/** Data of an event in a table row. @param {any} event */
export function brief({ data, dataBytes }) {
  if (dataBytes !== undefined && data === undefined) return `${count(dataBytes)} bytes`;
  const text = JSON.stringify(data) ?? '';
  return text.length > 160 ? `${text.slice(0, 160)} …` : text;
}

/** Button that shows newer rows, while the list must not move. @param {{ tail: ReturnType<typeof useTail>, what: string }} props */
export function Newer({ tail, what }) {
  return html`<p class="newer" role="status">${tail.newer.length > 0 && html`<button type="button" class="primary" onClick=${tail.show}>↑ ${tail.many ? 'More than ' : ''}${plural(tail.newer.length, `newer ${what}`)}</button>`}</p>`;
}

/** Loading, error or empty state of a tail. @param {{ tail: ReturnType<typeof useTail>, children?: any }} props */
export function Nothing({ tail, children }) {
  if (tail.error) return html`<${Failed} error=${tail.error} again=${tail.again} />`;
  if (tail.loading) return html`<div class="empty" aria-busy="true">Loading …</div>`;
  if (tail.next) return html`<${Empty} title="No match in the newest entries"><p>Older entries were not searched yet.</p><p><button type="button" onClick=${tail.more} disabled=${tail.busy}>Search older entries</button></p></${Empty}>`;
  return children;
}

/** Live tail of events. */
export function EventTail() {
  const { query, rest } = route.value;
  const name = query.get('name')?.trim() ?? '';
  const [stopped, stop] = useState(false);
  const tail = useTail('/events', 'events', { name }, { idOf: (it) => it.id, stopped, stream: '/events/stream', fits: (it) => !name || matches(it.name, name) });
  const verdicts = useVerdicts(tail.rows);
  const told = useFetched('/workflows', {}, { live: false });
  const names = useMemo(() => /** @type {any[]} */ (told.value?.workflows ?? []).flatMap((it) => [it.name, ...it.triggers.filter((/** @type {any} */ one) => typeof one === 'string')]), [told.value]);
  const columns = /** @type {import('../../ui/table.mjs').Column[]} */ ([
    { name: 'Received', of: (it) => html`<${Time} at=${it.at} />` },
    { name: 'Event', hide: true, of: (it) => html`<${EventLink} id=${it.id} />` },
    { name: 'Name', of: (it) => html`<b class="event-name">${it.name}</b>` },
    { name: 'Verdicts', of: (it) => (isDeferred(it) ? html`<${Delivery} of=${it} />` : html`<${Verdicts} receipts=${verdicts(it.id)} taken=${names.some((one) => matches(it.name, one))} />`) },
    { name: 'Data', hide: true, of: (it) => html`<span class="id soft">${brief(it)}</span>` },
  ]);
  return html`<div class="filters">
      <${Search} main name="name" label="Name or prefix*" placeholder="order/*" list=${names} />
      <button type="button" aria-pressed=${stopped} onClick=${() => (stopped ? (stop(false), tail.show()) : stop(true))}>${stopped ? '▶ Resume' : '❚❚ Pause'}</button>
      ${tail.gap > 0 && html`<span class="faint" role="status">The tail fell behind; the list was reloaded.</span>`}
    </div>
    ${tail.rows.length > 0 && html`<${Stale} error=${tail.error} />`}
    <${Newer} tail=${tail} what="event" />
    ${tail.rows.length === 0
      ? html`<${Nothing} tail=${tail}>${name
          ? html`<${Empty} title="No matching events">The name must match exactly, unless it ends in <code>*</code>.</${Empty}>`
          : html`<${Empty} title="No events yet">Send one from <a href=${to('try')}>Try it</a>, or with <code>tidegate send NAME '{"json": true}'</code>.</${Empty}>`}</${Nothing}>`
      : html`<div class="events"><${Table} label="Events" columns=${columns} rows=${tail.rows} idOf=${(/** @type {any} */ it) => it.id} chosen=${rest[0] ?? null}
          open=${(/** @type {any} */ it) => go(to(['events', it.id], Object.fromEntries(query)))} more=${tail.next ? tail.more : null} busy=${tail.busy} /></div>`}`;
}
