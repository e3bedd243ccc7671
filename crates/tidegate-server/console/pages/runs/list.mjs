// List of runs, newest first.
import { html, useEffect, useMemo, useState } from '../../lib/html.mjs';
import { plural } from '../../lib/format.mjs';
import { go, route, to } from '../../lib/route.mjs';
import { Empty, Failed, Stale } from '../../ui/empty.mjs';
import { RunLink, WorkflowLink } from '../../ui/link.mjs';
import { State } from '../../ui/state.mjs';
import { Table } from '../../ui/table.mjs';
import { Time, Took } from '../../ui/time.mjs';
import { Bulk } from './bulk.mjs';
import { Filters } from './filters.mjs';
import { Stranded } from './stranded.mjs';
import { Stands } from './stands.mjs';
import { useRuns } from './use-runs.mjs';
import { ALIVE, narrowed, which } from './which.mjs';

/** Maximum number of runs selected by one click. */
const AT_ONCE = 100;

/** @param {any[]} rows @param {Set<string>} chosen @param {(change: (before: Set<string>) => Set<string>) => void} choose */
function columns(rows, chosen, choose) {
  /** @param {string} id */
  const toggle = (id) => choose((before) => (before.has(id) ? new Set([...before].filter((it) => it !== id)) : new Set([...before, id])));
  const all = () => choose((before) => (before.size > 0 ? new Set() : new Set(rows.filter((run) => ALIVE.includes(run.state)).slice(0, AT_ONCE).map((run) => run.id))));
  return /** @type {import('../../ui/table.mjs').Column[]} */ ([
    { name: html`<input type="checkbox" checked=${chosen.size > 0} onChange=${all} aria-label="Select all loaded live runs" title="Select all loaded live runs" />`, hide: true, of: (run) => html`<input type="checkbox" checked=${chosen.has(run.id)} onChange=${() => toggle(run.id)} aria-label=${`Select ${run.id}`} />` },
    { name: 'Status', of: (run) => html`<${State} state=${run.state} />` },
    { name: 'Run', hide: true, of: (run) => html`<${RunLink} id=${run.id} />` },
    { name: 'Workflow', of: (run) => html`<${WorkflowLink} app=${run.app} name=${run.workflow} version=${run.version} />` },
    { name: 'Queued at', of: (run) => html`<${Time} at=${run.queuedAt} />` },
    { name: 'Duration', num: true, hide: true, title: 'time from admission to end; for a live run, its age', of: (run) => html`<${Took} from=${run.queuedAt} to=${run.endedAt} />` },
    { name: 'Details', title: 'error, output, progress, or what the run is blocked by', hide: true, wide: true, of: (run) => html`<${Stands} run=${run} />` },
  ]);
}

/** @param {{ runs: ReturnType<typeof useRuns> }} props */
function Nothing({ runs }) {
  if (runs.error) return html`<${Failed} error=${runs.error} again=${runs.again} />`;
  if (runs.loading) return html`<div class="empty" aria-busy="true">Loading …</div>`;
  if (runs.next) {
    return html`<${Empty} title="No match in the newest runs"><p>Older runs were not searched yet.</p>
      <p><button type="button" onClick=${runs.more} disabled=${runs.busy}>${runs.busy ? 'Searching …' : 'Search older runs'}</button></p></${Empty}>`;
  }
  return narrowed(route.value.query)
    ? html`<${Empty} title="No matching runs">Remove a filter, or wait: new matching runs appear here.</${Empty}>`
    : html`<${Empty} title="No runs yet">Send an event from <a href=${to('try')}>Try it</a>, or with <code>tidegate send NAME '{"json": true}'</code>.</${Empty}>`;
}

export function RunList() {
  const asked = useMemo(() => which(route.value.query), [route.value.query.toString()]);
  const [chosen, choose] = useState(/** @type {Set<string>} */ (new Set()));
  // A change of filters clears the selection: otherwise a bulk action could affect selected runs
  // that are not in the list.
  useEffect(() => choose((before) => (before.size > 0 ? new Set() : before)), [JSON.stringify(asked)]);
  const runs = useRuns(asked, chosen.size > 0);
  const shown = useMemo(() => columns(runs.rows, chosen, choose), [runs.rows, chosen]);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    function press(event) {
      const row = document.activeElement;
      if (event.key === 'x' && row?.matches('[data-row]')) /** @type {HTMLElement | null} */ (row.querySelector('input'))?.click();
    }
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  return html`
    <div class="page-head"><h1>Runs</h1><p class="hide-phone">Newest first. <kbd>j</kbd> <kbd>k</kbd> move, <kbd>x</kbd> selects, <kbd>Enter</kbd> opens.</p>
      <${Bulk} asked=${asked} chosen=${chosen} clear=${() => choose(new Set())} again=${runs.again} /></div>
    <${Stranded} /><${Filters} />
    ${runs.rows.length > 0 && html`<${Stale} error=${runs.error} />`}
    <p class="newer" role="status">${runs.newer.length > 0 && html`<button type="button" class="primary" onClick=${runs.show}>↑ ${runs.many ? 'More than ' : ''}${plural(runs.newer.length, 'newer run')}</button>`}</p>
    ${runs.rows.length === 0
      ? html`<${Nothing} runs=${runs} />`
      : html`<div class="runs"><${Table} label="Runs" columns=${shown} rows=${runs.rows} idOf=${(/** @type {any} */ run) => run.id}
          open=${(/** @type {any} */ run) => go(to(['runs', run.id]))} more=${runs.next ? runs.more : null} busy=${runs.busy} /></div>`}`;
}
