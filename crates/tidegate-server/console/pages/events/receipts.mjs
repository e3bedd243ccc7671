import { html } from '../../lib/html.mjs';
import { table } from '../../lib/controls.mjs';
import { useFetched } from '../../lib/data.mjs';
import { shortId } from '../../lib/format.mjs';
import { go, route, to } from '../../lib/route.mjs';
import { Empty, Stale } from '../../ui/empty.mjs';
import { Choose, Search } from '../../ui/field.mjs';
import { WorkflowLink } from '../../ui/link.mjs';
import { State } from '../../ui/state.mjs';
import { Table } from '../../ui/table.mjs';
import { Time } from '../../ui/time.mjs';
import { Verdict } from '../../ui/verdict.mjs';
import { Newer, Nothing } from './tail.mjs';
import { useTail } from './use-tail.mjs';

const OUTCOMES = ['dropped', 'skipped', 'deduped', 'coalesced', 'buffered', 'replaced', 'rejected', 'expired', 'cancelled', 'displaced', 'queued'];

/** @param {URLSearchParams} query */
const columns = (query) => /** @type {import('../../ui/table.mjs').Column[]} */ ([
  { name: 'At', of: (it) => html`<${Time} at=${it.at} />` },
  { name: 'Verdict', of: (it) => html`<${State} state=${it.outcome} />` },
  { name: 'Workflow', hide: true, of: (it) => html`<${WorkflowLink} app=${it.app} name=${it.workflow} />` },
  { name: 'Details', of: (it) => html`<${Verdict} of=${it} />` },
  { name: 'Event', hide: true, of: (it) => html`<a class="id" title=${it.eventId} href=${to(['events', it.eventId], Object.fromEntries(query))}>${shortId(it.eventId)}</a>` },
]);

/** Receipts: verdicts other than “started”, each with a link to the surviving run. */
export function Receipts() {
  const { query, rest } = route.value;
  const asked = Object.fromEntries(['outcome', 'control', 'workflow', 'key', 'event'].map((name) => [name, query.get(name)?.trim() || undefined]));
  const given = query.get('outcome') ?? '';
  const tail = useTail('/receipts', 'receipts', asked, { idOf: (it) => `${it.eventId} ${it.app} ${it.workflow} ${it.control} ${it.outcome}`, stopped: false });
  const told = useFetched('/workflows', {}, { live: false });
  const names = [...new Set([.../** @type {any[]} */ (told.value?.workflows ?? []).map((it) => it.name), ...(asked.workflow ? [asked.workflow] : [])])].sort();
  return html`<nav class="chips" aria-label="Verdicts">${['', ...OUTCOMES].map((it) => html`<a class="chip" aria-current=${it === given ? 'true' : undefined} href=${to(['events'], { ...Object.fromEntries(query), outcome: it })}>${it || 'all'}</a>`)}</nav>
    <div class="filters">
      <${Search} main name="key" label="Key" placeholder="acme" />
      <${Choose} name="control" label="Control" words=${table.value.gates} />
      <${Choose} name="workflow" label="Workflow" words=${names} />
      <${Search} name="event" label="Event" placeholder="evt_…" />
    </div>
    ${tail.rows.length > 0 && html`<${Stale} error=${tail.error} />`}
    <${Newer} tail=${tail} what="receipt" />
    ${tail.rows.length === 0
      ? html`<${Nothing} tail=${tail}><${Empty} title="No receipts">A receipt records every verdict other than an immediate start: ${OUTCOMES.join(', ')}.</${Empty}></${Nothing}>`
      : html`<div class="receipts"><${Table} label="Receipts" columns=${columns(query)} rows=${tail.rows} idOf=${(/** @type {any} */ it) => `${it.eventId} ${it.app} ${it.workflow} ${it.control} ${it.outcome}`} chosen=${rest[0] ?? null}
          open=${(/** @type {any} */ it) => go(to(['events', it.eventId], Object.fromEntries(query)))} more=${tail.next ? tail.more : null} busy=${tail.busy} /></div>`}`;
}
