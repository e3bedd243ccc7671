// List of reactions, with their positions in streams.
import { html, signal } from '../../lib/html.mjs';
import { useFetched, useList } from '../../lib/data.mjs';
import { count, plural } from '../../lib/format.mjs';
import { route, setQuery, to } from '../../lib/route.mjs';
import { Empty, Stale, notYet } from '../../ui/empty.mjs';
import { Choose, Search } from '../../ui/field.mjs';
import { Table } from '../../ui/table.mjs';
import { Held, PlaceState, Progress, inWords, placeId } from './place.mjs';

/** @typedef {import('./place.mjs').Place} Place */

/** Selected positions, by id. */
export const picked = signal(/** @type {Map<string, Place>} */ (new Map()));

/** @param {Place} place */
function flip(place) {
  const next = new Map(picked.value);
  if (!next.delete(placeId(place))) next.set(placeId(place), place);
  picked.value = next;
}

/** @param {{ place: Place }} props */
const Tick = ({ place }) =>
  html`<label class="tick"><input type="checkbox" checked=${picked.value.has(placeId(place))} onChange=${() => flip(place)} />
    <span class="visually-hidden">select ${place.reaction} in ${place.stream}</span></label>`;

const COLUMNS = /** @type {import('../../ui/table.mjs').Column[]} */ ([
  { name: '✓', title: 'select', of: (place) => html`<${Tick} place=${place} />` },
  { name: 'Reaction', of: (place) => place.reaction },
  { name: 'Stream', of: (place) => html`<code>${place.stream}</code>` },
  { name: 'Status', of: (place) => html`<${PlaceState} place=${place} />` },
  { name: 'Handled', title: 'handled events, of those in the stream', of: (place) => html`<${Progress} place=${place} />` },
  { name: 'Lag', num: true, of: (place) => count(place.lag) },
  { name: 'Failures', num: true, title: 'consecutive failures; progress resets them to 0', of: (place) => (place.failures ? count(place.failures) : html`<span class="faint">0</span>`) },
  { name: 'Blocked by', title: 'the lease holder, the next retry, or the error', wide: true, of: (place) => html`<${Held} place=${place} />` },
]);

/** @param {{ reactions: import('./place.mjs').Reaction[] }} props */
const Definitions = ({ reactions }) =>
  html`<section class="reaction-list" aria-label="Reactions">${reactions.slice(0, 24).map((it) => html`<div class="card reaction" key=${it.name}>
    <h2><a href=${to('streams', { reaction: it.name })}>${it.name}</a></h2>
    <p class="soft">consumes ${it.source !== '*' ? html`<code>${it.source}</code>` : 'every stream'}; ${inWords(it)}.</p>
    <p class="actions"><button type="button" onClick=${() => setQuery({ mend: 'unblock', of: it.name })}>Unblock …</button>
      <button type="button" onClick=${() => setQuery({ mend: 'reset', of: it.name })}>Reset …</button></p>
  </div>`)}</section>`;

function Picked() {
  const n = picked.value.size;
  if (n === 0) return null;
  return html`<div class="picked" role="status"><b>${plural(n, 'position')} selected</b>
    <button type="button" class="primary" onClick=${() => setQuery({ mend: 'unblock', of: undefined })}>Unblock …</button>
    <button type="button" onClick=${() => setQuery({ mend: 'reset', of: undefined })}>Reset …</button>
    <button type="button" class="quiet" onClick=${() => (picked.value = new Map())}>Clear selection</button></div>`;
}

export function Places() {
  const { query } = route.value;
  const asked = { reaction: query.get('reaction'), stream: query.get('stream'), blocked: query.get('blocked'), limit: 100 };
  const places = useList('/reactions', 'streams', asked, placeId);
  // A filtered response lists only matching reactions, but the select needs the names of all.
  const known = useFetched('/reactions', { limit: 1 }, { live: false });
  const reactions = places.first?.reactions ?? [];
  const waits = notYet({ ...places, value: places.first });
  if (waits) return waits;
  const filtered = asked.reaction || asked.stream || asked.blocked;
  if (reactions.length === 0 && !filtered) {
    return html`<${Empty} title="No reactions yet">A reaction is your code that consumes streams under a lease, with a position in each. Programs that embed Tidegate register them; see “Streams and reactions” in the documentation. Events are listed under <a href=${to('streams', { view: 'streams' })}>All streams</a>.</${Empty}>`;
  }
  return html`<${Stale} error=${places.error} />
    <${Definitions} reactions=${reactions} />
    <div class="filters" role="search">
      <${Search} name="stream" label="Stream" placeholder="order/ or ^order/7$" main />
      <${Choose} name="reaction" label="Reaction" words=${(known.value?.reactions ?? []).map((/** @type {any} */ it) => it.name)} />
      <${Choose} name="blocked" label="Status" words=${[['true', 'blocked'], ['false', 'not blocked']]} />
      <${Picked} />
    </div>
    ${places.items.length === 0
      ? html`<${Empty} title=${asked.blocked === 'true' ? 'Nothing is blocked' : filtered ? 'No matching positions' : 'No positions yet'}>
          ${asked.blocked === 'true' ? 'No matching stream has a blocked reaction.' : filtered ? 'Remove a filter.' : 'A position appears with the first event of a stream that a reaction consumes.'}
          ${filtered && html` <a href=${to('streams')}>Clear filters</a>`}</${Empty}>`
      : html`<div class="squeezed"><${Table} label="Positions of reactions" columns=${COLUMNS} rows=${places.items} idOf=${placeId} open=${(/** @type {Place} */ it) => setQuery({ open: it.stream })}
          more=${places.next ? places.more : null} moreText="Load more" busy=${places.busy} /></div>`}`;
}
