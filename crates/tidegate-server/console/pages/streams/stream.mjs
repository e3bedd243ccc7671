// Details of a stream: its events, older and newer; its reactions; and a form to append an event.
import { html, useEffect, useState } from '../../lib/html.mjs';
import { get, path } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { count, plural } from '../../lib/format.mjs';
import { here, route, setQuery } from '../../lib/route.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { Empty, notYet } from '../../ui/empty.mjs';
import { Json } from '../../ui/json.mjs';
import { Badge } from '../../ui/state.mjs';
import { Tabs } from '../../ui/tabs.mjs';
import { Ago } from '../../ui/time.mjs';
import { Append } from './append.mjs';
import { Held, PlaceState, Progress, placeId } from './place.mjs';
import { picked } from './places.mjs';

const PAGE = 25;

/** @param {{ event: any }} props */
const Logged = ({ event }) =>
  html`<li><details class="logged"><summary><span class="num faint">${count(event.version)}</span> <b>${event.name}</b>
      <code class="brief">${JSON.stringify(event.data)}</code> <span class="faint nowrap"><${Ago} at=${event.at} /></span></summary>
    <${Json} value=${event.data} label=${`data of version ${event.version}`} />
    <dl class="pairs"><dt>event</dt><dd class="id">${event.id}</dd><dt>log position</dt><dd>${count(event.position)}</dd>
      ${event.correlationId && html`<dt>correlation</dt><dd class="id">${event.correlationId}</dd>`}
      ${event.causationId && html`<dt>caused by</dt><dd class="id">${event.causationId}</dd>`}</dl></details></li>`;

/** @param {any} place */
function unblock(place) {
  picked.value = new Map([[placeId(place), place]]);
  setQuery({ mend: 'unblock', of: undefined, open: undefined });
}

/** @param {{ name: string }} props */
function Followers({ name }) {
  const told = useFetched('/reactions', { stream: `^${name}$`, limit: 100 });
  const places = (told.value?.streams ?? []).filter((/** @type {any} */ it) => it.stream === name);
  if (places.length === 0) return null;
  return html`<section><h3>Reactions</h3>
    <ul class="followers">${places.map((/** @type {any} */ place) => html`<li key=${place.reaction}>
      <b>${place.reaction}</b><${PlaceState} place=${place} /><${Progress} place=${place} />
      ${place.blocked ? html`<button type="button" onClick=${() => unblock(place)}>Unblock …</button>` : html`<span><${Held} place=${place} /></span>`}
      ${place.blocked && html`<p class="problem">${place.error ?? place.blocked}</p>`}</li>`)}</ul></section>`;
}

/** @param {{ name: string, close: () => void }} props */
export function Stream({ name, close }) {
  const backwards = route.value.query.get('order') !== 'oldest';
  const where = path`/streams/${name}/events`;
  const first = useFetched(where, { backwards: backwards || undefined, limit: PAGE });
  const [rest, setRest] = useState(/** @type {{ events: any[], next: number | null | undefined }} */ ({ events: [], next: undefined }));
  useEffect(() => setRest({ events: [], next: undefined }), [backwards]);
  const head = first.value?.events ?? [];
  const seen = new Set(head.map((/** @type {any} */ it) => it.version));
  const events = head.concat(rest.events.filter((it) => !seen.has(it.version)));
  const next = rest.next === undefined ? first.value?.next : rest.next;
  async function more() {
    const page = await get(where, { from: next, backwards: backwards || undefined, limit: PAGE });
    setRest((before) => ({ events: (before.next === undefined ? head : before.events).concat(page.events), next: page.next }));
  }
  const none = /** @type {any} */ (first.error)?.status === 404;
  const { version, closed } = first.value ?? {};
  return html`<${Drawer} wide title=${html`Stream <code>${name}</code>`} close=${close}>
    ${none
      ? html`<${Empty} title="Stream not found">A stream is created with its first event: append one below.</${Empty}>`
      : notYet(first) ?? html`
        <p>${plural(version + 1, 'event')}, last version <b>${count(version)}</b> ${closed && html`<${Badge} title="closed by a guard">closed</${Badge}>`}</p>
        <${Followers} name=${name} />
        <section><div class="line-head"><h3>Events</h3>
          <${Tabs} label="Order" tabs=${[
            { text: 'newest first', href: here({ order: undefined }), here: backwards },
            { text: 'oldest first', href: here({ order: 'oldest' }), here: !backwards },
          ]} /></div>
        <ul class="log">${events.map((/** @type {any} */ event) => html`<${Logged} key=${event.id} event=${event} />`)}</ul>
        ${next !== null && next !== undefined && html`<p class="more"><button type="button" onClick=${more}>${backwards ? 'Load older' : 'Load newer'}</button></p>`}</section>`}
    ${!closed && html`<${Append} stream=${name} version=${none ? -1 : version} done=${first.again} />`}
  </${Drawer}>`;
}
