// List of all streams by name, each with its last version.
import { html, useState } from '../../lib/html.mjs';
import { useList } from '../../lib/data.mjs';
import { count } from '../../lib/format.mjs';
import { route, setQuery } from '../../lib/route.mjs';
import { Empty, Stale, notYet } from '../../ui/empty.mjs';
import { Badge } from '../../ui/state.mjs';
import { Table } from '../../ui/table.mjs';
import { Ago } from '../../ui/time.mjs';

const COLUMNS = [
  { name: 'Stream', wide: true, of: (/** @type {any} */ it) => html`<code>${it.name}</code> ${it.closed && html`<${Badge} title="closed by a guard: no more events can be appended">closed</${Badge}>`}` },
  { name: 'Events', num: true, title: 'versions start at 0', of: (/** @type {any} */ it) => count(it.version + 1) },
  { name: 'Last version', num: true, of: (/** @type {any} */ it) => (it.version < 0 ? '–' : count(it.version)) },
  { name: 'Log position', num: true, of: (/** @type {any} */ it) => (it.position === null ? '–' : count(it.position)) },
  { name: 'Last event', of: (/** @type {any} */ it) => html`<${Ago} at=${it.at} />` },
];

/** Opens a stream by its full name, also one that does not exist yet. */
function Find() {
  const [name, setName] = useState('');
  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    if (name.trim()) setQuery({ open: name.trim() });
  }
  return html`<form class="filters" onSubmit=${submit}>
    <label class="field"><span>Open or create a stream by name</span>
      <input type="search" class="long" data-search value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} placeholder="order/7" spellcheck=${false} /></label>
    <button disabled=${!name.trim()}>Open</button>
  </form>`;
}

export function Heads() {
  const streams = useList('/streams', 'streams', { limit: 100 }, (it) => it.name);
  const chosen = route.value.query.get('open');
  return html`<${Find} /><${Stale} error=${streams.first ? streams.error : null} />
    ${notYet({ ...streams, value: streams.first }) ?? (streams.items.length === 0
      ? html`<${Empty} title="No streams yet">A stream is created with its first event: enter a name above and append an event, or use <code>POST /streams/{stream}/events</code>.</${Empty}>`
      : html`<${Table} label="Streams" columns=${COLUMNS} rows=${streams.items} idOf=${(/** @type {any} */ it) => it.name} chosen=${chosen}
          open=${(/** @type {any} */ it) => setQuery({ open: it.name })} more=${streams.next ? streams.more : null} moreText="Load more" busy=${streams.busy} />`)}`;
}
