// Keys that the policies of a flow arbitrate by (mostly session ids), with the runs inside and
// queued.
import { html } from '../../lib/html.mjs';
import { useFetched, useList } from '../../lib/data.mjs';
import { count } from '../../lib/format.mjs';
import { busiest } from '../../lib/live.mjs';
import { here, route, setQuery } from '../../lib/route.mjs';
import { Empty, Stale, notYet } from '../../ui/empty.mjs';
import { Search } from '../../ui/field.mjs';
import { Table } from '../../ui/table.mjs';
import { Tabs } from '../../ui/tabs.mjs';
import { Ago } from '../../ui/time.mjs';
import { InLine, Inside } from './lane.mjs';
import { kindOf } from './policy.mjs';

/** @param {any} gate */
export const gateId = (gate) => `${gate.slot ?? ''} ${gate.key}`;
/** @param {any} gate */
const busy = (gate) => (gate.inside ?? 0) > 0 || (gate.line?.count ?? 0) > 0;

/** Actions of the newest runs of a flow, by run: one request for all rows. @param {string} flow */
export function useActions(flow) {
  const runs = useFetched('/runs', { text: `${flow}/`, limit: 100 });
  return new Map(/** @type {[string, string][]} */ ((runs.value?.runs ?? []).filter((/** @type {any} */ it) => it.workflow.startsWith(`${flow}/`)).map((/** @type {any} */ it) => [it.id, it.workflow.slice(flow.length + 1)])));
}

/** @param {Map<string, string>} actions @returns {import('../../ui/table.mjs').Column[]} */
const columns = (actions) => [
  { name: 'Key', of: (gate) => html`<span class="faint" title=${kindOf(gate.slot)}>${kindOf(gate.slot).split('.').at(-1)} =</span> <code>${gate.key}</code>` },
  { name: 'Inside', of: (gate) => html`<${Inside} gate=${gate} actions=${actions} />` },
  { name: 'Queued, next first', wide: true, of: (gate) => html`<${InLine} gate=${gate} actions=${actions} />` },
  { name: 'Oldest queued', num: true, of: (gate) => html`<${Ago} at=${gate.line?.since} />` },
];

/** @param {{ flow: string }} props */
export function Sessions({ flow }) {
  const { query } = route.value;
  const key = query.get('key');
  const idle = query.get('idle') === 'true';
  const gates = useList('/gates', 'gates', { control: 'policy', workflow: flow, key, limit: 100 }, gateId);
  const actions = useActions(flow);
  // Gates with the longest queues come first, on whatever page of the list they are.
  const known = new Map(gates.items.map((gate) => [gateId(gate), gate]));
  const top = busiest.value.filter((gate) => gate.control === 'policy' && gate.workflow === flow && (!key || gate.key.includes(key)));
  const tops = new Set(top.map(gateId));
  const others = gates.items.filter((gate) => !tops.has(gateId(gate)));
  const rows = [...top.map((gate) => known.get(gateId(gate)) ?? gate), ...others.filter(busy), ...(idle ? others.filter((gate) => !busy(gate)) : [])];
  return html`<div class="line-head spread"><h2>Sessions and other keys</h2>
      <div class="filters tight"><${Search} name="key" label="Key" placeholder="part of the key" main />
        <${Tabs} label="Keys" tabs=${[{ text: 'busy', href: here({ idle: undefined }), here: !idle }, { text: 'all', href: here({ idle: 'true' }), here: idle }]} /></div></div>
    <${Stale} error=${gates.first ? gates.error : null} />
    ${notYet({ ...gates, value: gates.first }) ?? (rows.length === 0
      ? html`<${Empty} title=${idle ? 'No keys yet' : gates.next ? `None of the first ${count(gates.items.length)} keys is busy` : 'All keys are idle'}>
          ${idle ? 'A key is listed after its first request to an action whose policy is not allow.' : html`${gates.next ? 'Keys with long queues are always listed here.' : 'No request is in flight.'} ${gates.items.length > 0 && html`<a href=${here({ idle: 'true' })}>Show idle keys</a>`}`}
          ${key && html`<p>Open a session that is not listed: <button type="button" onClick=${() => setQuery({ session: key })}>Open ${key}</button></p>`}
          ${gates.next && html`<p><button type="button" onClick=${gates.more}>Load more</button></p>`}</${Empty}>`
      : html`<div class="squeezed"><${Table} label="Sessions and other keys" columns=${columns(actions)} rows=${rows} idOf=${gateId} chosen=${`${query.get('slot') ?? 'session'} ${query.get('session')}`}
          open=${(/** @type {any} */ gate) => setQuery({ session: gate.key, slot: gate.slot === 'session' ? undefined : gate.slot })}
          more=${gates.next ? gates.more : null} moreText="Load more" busy=${gates.busy} /></div>`)}`;
}
