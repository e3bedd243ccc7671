// Gates: the state of every control for every key, as live lanes or as a table.
import { html, useEffect, useRef } from '../lib/html.mjs';
import { table } from '../lib/controls.mjs';
import { useFetched } from '../lib/data.mjs';
import { busiest } from '../lib/live.mjs';
import { route, setQuery, to } from '../lib/route.mjs';
import { Empty, Stale, notYet } from '../ui/empty.mjs';
import { Choose, Search } from '../ui/field.mjs';
import { Switch } from '../ui/switch.mjs';
import { idOf, isBusy } from './gates/gate.mjs';
import { GateDrawer } from './gates/drawer.mjs';
import { Hover } from './gates/hover.mjs';
import { Lanes } from './gates/lanes.mjs';
import { useLinger } from './gates/linger.mjs';
import { GateTable } from './gates/table.mjs';
import { useWorkflows } from './workflows/use.mjs';

/** Gates per page; all of them are refreshed. */
const PAGE = 60;
/** Number of pages without a match that are skipped automatically. */
const HOPS = 12;
const NONE = /** @type {Gate[]} */ ([]);
/** Time in ms that a gate stays among the busiest after it was last one of them. */
const LINGERS = 15_000;

/** @typedef {import('./gates/gate.mjs').Gate} Gate */

export default function Gates() {
  const { query } = route.value;
  const [control, app, workflow, pool, key] = ['control', 'app', 'workflow', 'pool', 'key'].map((name) => query.get(name) ?? undefined);
  const asked = JSON.stringify([control, app, workflow, pool, key]);
  const cursor = useCursor(asked);
  const fetched = useFetched('/gates', { control, app, workflow, pool, key, cursor, limit: PAGE });
  const defined = useWorkflows();
  const filtered = Boolean(control || app || workflow || pool || key);
  useHops(fetched, asked);
  const gates = useLinger(fetched.value?.gates ?? NONE, JSON.stringify([asked, cursor]));
  const shown = query.get('idle') === 'hide' ? gates.filter(isBusy) : gates;
  const next = fetched.value?.next;
  const workflows = defined.value?.workflows ?? [];
  const apps = [...new Set(workflows.map((/** @type {any} */ it) => it.app))];
  const View = query.get('view') === 'table' ? GateTable : Lanes;
  const open = (/** @type {Gate} */ gate) => setQuery({ open: idOf(gate) });
  const chosen = query.get('open');
  const top = useSteady(filtered || cursor ? [] : busiest.value, filtered || cursor ? [] : gates);
  const rest = shown.filter((gate) => !top.some((it) => idOf(it) === idOf(gate)));
  return html`
    <div class="page-head"><h1>Gates</h1><p>State of every control for every key: runs inside, queued runs, next grants.</p></div>
    <div class="filters">
      <${Search} name="key" label="Key contains" placeholder="part of the key" main />
      <${Choose} name="control" label="Control" words=${table.value.gates} all="all except claims" />
      ${(app || apps.length > 1) && html`<${Choose} name="app" label="App" words=${apps} />`}
      <${Choose} name="workflow" label="Workflow" words=${names(workflows)} />
      ${pool && html`<${Choose} name="pool" label="Pool" words=${[pool]} />`}
      <${Choose} name="idle" label="Idle gates" words=${[['hide', 'hide']]} all="show" />
      <${Switch} name="view" label="View" words=${[['', 'Lanes'], ['table', 'Table']]} />
    </div>
    <${Stale} error=${fetched.value ? fetched.error : null} />
    ${notYet(fetched)}
    ${top.length > 0 && View === Lanes && html`<h2 class="section">Longest queues</h2>
      <${View} gates=${top} label="Gates with the longest queues" ...${{ open, chosen, workflows }} />
      ${rest.length > 0 && html`<h2 class="section">Other gates, in the order in which their controls act</h2>`}`}
    ${rest.length > 0 && html`<${View} gates=${View === Lanes ? rest : top.concat(rest)} label="Gates" ...${{ open, chosen, workflows }} />`}
    ${fetched.value && shown.length === 0 && top.length === 0 && html`<${Nothing} filtered=${filtered} next=${next} all=${gates.length} />`}
    <${Hover} />
    ${(next || cursor) && html`<p class="pages">
      <button type="button" disabled=${!cursor} onClick=${() => setQuery({ cursor: undefined })}>First page</button>
      <button type="button" disabled=${!next} onClick=${() => { setQuery({ cursor: next }); document.querySelector('main')?.scrollTo(0, 0); }}>Next page</button>
      ${key && next && html`<span class="faint">A page searches 1,000 gates: more may match.</span>`}</p>`}
    ${chosen && html`<${GateDrawer} key=${chosen} id=${chosen} known=${gates.concat(busiest.value).find((gate) => idOf(gate) === chosen)} workflows=${workflows} />`}`;
}

/** @param {any[]} workflows */
function names(workflows) {
  const all = workflows.map((it) => it.name);
  const flows = all.filter((name) => name.includes('/')).map((name) => name.split('/')[0]);
  return [...new Set(all.concat(flows))].sort();
}

/** Cursor of the page; other filters start at the first page. @param {string} asked */
function useCursor(asked) {
  const before = useRef(asked);
  const given = route.value.query.get('cursor') ?? undefined;
  const other = before.current !== asked;
  useEffect(() => {
    before.current = asked;
    if (other && given) setQuery({ cursor: undefined });
  }, [asked]);
  return other ? undefined : given;
}

/** Continues a search on the next page, up to `HOPS` times, where a page had no match.
 *  @param {any} fetched @param {string} asked */
function useHops(fetched, asked) {
  const hops = useRef({ asked, done: 0 });
  if (hops.current.asked !== asked) hops.current = { asked, done: 0 };
  const { value, loading } = fetched;
  useEffect(() => {
    if (loading || !value?.next || value.gates.length > 0 || hops.current.done >= HOPS) return;
    hops.current.done += 1;
    setQuery({ cursor: value.next });
  }, [value, loading]);
}

/** Busiest gates; each keeps its position while it is one of them and a little longer, so that lanes
 *  do not jump when a queue is empty for a moment. @param {Gate[]} now @param {Gate[]} all */
function useSteady(now, all) {
  const last = useRef(/** @type {Map<string, number>} */ (new Map()));
  const fresh = new Map(now.map((gate) => [idOf(gate), gate]));
  const read = new Map(all.map((gate) => [idOf(gate), gate]));
  for (const id of fresh.keys()) last.current.set(id, Date.now());
  for (const [id, at] of last.current) if (Date.now() - at > LINGERS || !(fresh.has(id) || read.has(id))) last.current.delete(id);
  return [...last.current.keys()].map((id) => /** @type {Gate} */ (read.get(id) ?? fresh.get(id)));
}

/** @param {{ filtered: boolean, next: string | null, all: number }} props */
function Nothing({ filtered, next, all }) {
  if (all > 0) return html`<${Empty} title="All gates are idle"><button type="button" onClick=${() => setQuery({ idle: undefined })}>Show idle gates</button></${Empty}>`;
  if (next) return html`<${Empty} title="No match so far">There are more gates: continue on the next page.</${Empty}>`;
  if (filtered) return html`<${Empty} title="No matching gates">A gate is created when the first run or event with its key arrives. <button type="button" onClick=${() => setQuery({ key: undefined, control: undefined, app: undefined, workflow: undefined, pool: undefined, cursor: undefined })}>Clear filters</button></${Empty}>`;
  return html`<${Empty} title="No gates yet">A gate is created when the first run of a workflow with a control arrives. Add a limit to one of your <a href=${to('workflows')}>workflows</a>, or <a href=${to('try')}>send an event</a>.
    <div><pre>concurrency = { limit = 2, key = "tenant" }</pre></div></${Empty}>`;
}
