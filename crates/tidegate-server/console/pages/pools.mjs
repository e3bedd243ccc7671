// Pools: limits that several workflows share, with their gates and users.
import { html } from '../lib/html.mjs';
import { useFetched } from '../lib/data.mjs';
import { count, plural } from '../lib/format.mjs';
import { go, route, setQuery, to } from '../lib/route.mjs';
import { path } from '../ui/controls.mjs';
import { Empty, Stale, notYet } from '../ui/empty.mjs';
import { Search } from '../ui/field.mjs';
import { Users, limitsOf } from '../ui/pool.mjs';
import { Badge } from '../ui/state.mjs';
import { gateAddress, takenOf } from './gates/gate.mjs';
import { Hover } from './gates/hover.mjs';
import { Lanes } from './gates/lanes.mjs';
import { useLinger } from './gates/linger.mjs';
import { Weights } from './gates/weights.mjs';

/** Number of pools shown, and of gates drawn for each. */
const SHOWN = 30;
const DRAWN = 6;
const NONE = /** @type {Gate[]} */ ([]);

/** @typedef {import('./gates/gate.mjs').Gate} Gate */

export default function Pools() {
  const fetched = useFetched('/pools');
  const text = (route.value.query.get('text') ?? '').toLowerCase();
  const all = /** @type {any[]} */ (fetched.value?.pools ?? []);
  const found = all.filter((it) => it.name.toLowerCase().includes(text));
  return html`
    <div class="page-head"><h1>Pools</h1><p>Limits that several workflows share: their runs meet at one gate.</p></div>
    <div class="filters"><${Search} name="text" label="Name contains" placeholder="part of the name" main /></div>
    <${Stale} error=${fetched.value ? fetched.error : null} />
    ${notYet(fetched)}
    <div class="stack">${found.slice(0, SHOWN).map((pool) => html`<${Pool} key=${pool.name} pool=${pool} />`)}</div>
    ${found.length > SHOWN && html`<p class="faint">and ${count(found.length - SHOWN)} more: search by name.</p>`}
    ${fetched.value && found.length === 0 && html`<${Nothing} any=${all.length > 0} />`}
    <${Hover} />`;
}

/** @param {{ pool: any }} props */
function Pool({ pool }) {
  const fetched = useFetched('/gates', { pool: pool.name, limit: 100 });
  const gates = useLinger(fetched.value?.gates ?? NONE, pool.name);
  const busiest = [...gates].sort((a, b) => weight(b) - weight(a)).slice(0, DRAWN);
  const queued = gates.reduce((n, it) => n + (it.line?.count ?? 0), 0);
  return html`<section class="card stack" aria-label=${`Pool ${pool.name}`}>
    <div class="head-line"><h2 class="over">${pool.name}</h2> <span class="faint num">${gates.length === 0 ? 'idle' : `${taken(gates)}${count(queued)} queued`}</span></div>
    ${limitsOf(pool).map((it) => html`<p class="lead" key=${it.at.join()}><${Badge} tone="accent">${it.control}</${Badge}> ${it.sentence}.</p>`)}
    ${fairOf(pool).map(([control, by]) => html`<${Weights} key=${control} target=${{ pool: pool.name, control }} by=${by} />`)}
    <p>Used by <${Users} users=${pool.users} /></p>
    ${busiest.length > 0 && html`<${Lanes} gates=${busiest} label=${`Gates of pool ${pool.name}`} chosen=${null} workflows=${[]} open=${(/** @type {Gate} */ gate) => go(gateAddress(gate))} />`}
    <p class="faint"><a href=${to('gates', { pool: pool.name })}>${gates.length > DRAWN ? `Show ${fetched.value?.next ? 'all' : count(gates.length)} gates` : 'Show in Gates'}</a></p>
  </section>`;
}

/** Controls of a pool whose queues are served in turns, with the path of the values. @param {any} pool @returns {[string, string][]} */
const fairOf = (pool) =>
  ['throttle', 'concurrency'].flatMap((control) => [pool[control] ?? []].flat().flatMap((/** @type {any} */ it) => (it.fair ? [[control, path(it.fair.by)]] : [])));

/** Sort weight: activity at a gate. @param {Gate} gate */
const weight = (gate) => (gate.line?.count ?? 0) * 1000 + takenOf(gate);

/** Runs and units inside the gates of a pool. @param {Gate[]} gates */
function taken(gates) {
  const slots = gates.filter((it) => it.control === 'concurrency');
  if (slots.length === 0) return '';
  const runs = slots.reduce((n, it) => n + (it.inside ?? 0), 0);
  const units = slots.reduce((n, it) => n + takenOf(it), 0);
  return `${plural(runs, 'run')} inside${units === runs ? '' : ` with ${count(units)} units`}, `;
}

/** @param {{ any: boolean }} props */
const Nothing = ({ any }) =>
  any
    ? html`<${Empty} title="No matching pools"><button type="button" onClick=${() => setQuery({ text: undefined })}>Clear filters</button></${Empty}>`
    : html`<${Empty} title="No pools yet">Declare one in a Rust program, with <code>PUT /pools/openai</code>, or in the server's config file:
        <div><pre>${'[[pool]]\nname = "openai"\nconcurrency = { limit = 5, key = "customerId" }'}</pre></div></${Empty}>`;
