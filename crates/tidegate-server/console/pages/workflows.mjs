// Workflows: their definitions, controls, and live numbers of runs.
import { html } from '../lib/html.mjs';
import { table } from '../lib/controls.mjs';
import { count, plural } from '../lib/format.mjs';
import { route, setQuery, to } from '../lib/route.mjs';
import { controlsOf, namesOf } from '../ui/controls.mjs';
import { Empty, Stale, notYet } from '../ui/empty.mjs';
import { Choose, Search } from '../ui/field.mjs';
import { Badge } from '../ui/state.mjs';
import { Table } from '../ui/table.mjs';
import { WorkflowDrawer } from './workflows/drawer.mjs';
import { Mix } from './workflows/mix.mjs';
import { byWorkflow, sum } from './workflows/numbers.mjs';
import { Triggers } from './workflows/triggers.mjs';
import { useWorkflows } from './workflows/use.mjs';

/** One badge per control, its sentence as a tooltip. @param {{ flowControl?: any }} props */
const Controls = ({ flowControl }) => {
  const all = controlsOf(flowControl, table.value);
  if (all.length === 0) return html`<span class="faint">none</span>`;
  /** @type {Map<string, string[]>} */
  const by = new Map();
  for (const { control, it, sentence } of all) {
    const name = control === 'policy' ? it.policy : control;
    by.set(name, [...(by.get(name) ?? []), sentence]);
  }
  return [...by].map(([name, said]) => html`<${Badge} tone="accent" title=${said.join('\n')}>${name}${said.length > 1 ? ` ×${said.length}` : ''}</${Badge}>`);
};

/** @param {number} n @param {string} tone */
const figure = (n, tone) => html`<span class=${n > 0 ? `tone ${tone}` : 'faint'}>${count(n)}</span>`;

const COLUMNS = /** @type {import('../ui/table.mjs').Column[]} */ ([
  { name: 'Workflow', of: (row) => row.group
    ? html`<b>${row.group}</b> <span class="faint">flow with ${plural(row.actions, 'action')}</span>`
    : html`<span class=${`cell name${row.flow ? ' of-flow' : ''}`} title=${row.name}>${row.flow ? row.name.slice(row.flow.length + 1) : html`<b>${row.name}</b>`}</span>${row.app === 'default' ? '' : html` <span class="faint">${row.app}</span>`}` },
  { name: 'Controls', of: (row) => (row.group ? html`<a href=${to('flows', { open: row.group, app: row.app === 'default' ? undefined : row.app })}>Sessions and requests</a>` : html`<${Controls} flowControl=${row.flowControl} />`) },
  { name: 'Triggers', hide: true, of: (row) => (row.group ? '' : html`<${Triggers} workflow=${row} short />`) },
  { name: 'Versions', of: (row) => (row.group ? '' : html`<${Mix} current=${row.version} list=${row.list} />${row.numbers.stranded > 0 ? html` <${Badge} tone="bad" title="runs whose version no live engine serves">${count(row.numbers.stranded)} stranded</${Badge}>` : ''}`) },
  { name: 'In flight', num: true, of: (row) => figure(row.numbers.inFlight, 'go') },
  { name: 'Queued', num: true, of: (row) => figure(row.numbers.queued, 'wait') },
  { name: 'Waiting', num: true, of: (row) => figure(row.numbers.waiting, 'idle') },
]);

/** Table rows: workflows by name, actions below their flow. @param {any[]} workflows */
function rowsOf(workflows) {
  const numbers = byWorkflow();
  const rows = workflows.map((it) => {
    const list = numbers.get(`${it.app}/${it.name}`) ?? [];
    return { ...it, list, numbers: sum(list), flow: it.name.includes('/') ? it.name.split('/')[0] : null };
  });
  const out = [];
  let flow = '';
  for (const row of rows) {
    const of = row.flow ? `${row.app}/${row.flow}` : '';
    if (of && of !== flow) {
      const all = rows.filter((it) => it.flow === row.flow && it.app === row.app);
      out.push({ group: row.flow, app: row.app, name: row.flow, actions: all.length, numbers: sum(all.flatMap((it) => it.list)) });
    }
    flow = of;
    out.push(row);
  }
  return out;
}

/** @param {any} row */
const idOf = (row) => `${row.group ? 'flow ' : ''}${row.app}/${row.name}`;

export default function Workflows() {
  const { query } = route.value;
  const fetched = useWorkflows();
  const text = (query.get('text') ?? '').toLowerCase();
  const control = query.get('control');
  const all = /** @type {any[]} */ (fetched.value?.workflows ?? []);
  const found = all.filter((it) => it.name.toLowerCase().includes(text) && (!control || controlsOf(it.flowControl, table.value).some((one) => one.control === control)));
  const [name, app] = [query.get('open'), query.get('app') ?? 'default'];
  /** @param {any} row */
  function open(row) {
    if (row.group) location.hash = to('flows', { open: row.group, app: row.app === 'default' ? undefined : row.app });
    else setQuery({ open: row.name, app: row.app === 'default' ? undefined : row.app });
  }
  return html`
    <div class="page-head"><h1>Workflows</h1><p>Definitions, controls, and live numbers of runs.</p></div>
    <div class="filters">
      <${Search} name="text" label="Name contains" placeholder="part of the name" main />
      <${Choose} name="control" label="Control" words=${namesOf(table.value)} all="any" />
    </div>
    <${Stale} error=${fetched.value ? fetched.error : null} />
    ${notYet(fetched)}
    ${found.length > 0 && html`<div class="workflow-table"><${Table} columns=${COLUMNS} rows=${rowsOf(found)} idOf=${idOf} open=${open} label="Workflows" chosen=${name ? `${app}/${name}` : null} /></div>`}
    ${fetched.value && found.length === 0 && html`<${Nothing} any=${all.length > 0} />`}
    ${name && html`<${WorkflowDrawer} key=${`${app}/${name}`} name=${name} app=${app} />`}`;
}

/** @param {{ any: boolean }} props */
const Nothing = ({ any }) =>
  any
    ? html`<${Empty} title="No matching workflows"><button type="button" onClick=${() => setQuery({ text: undefined, control: undefined })}>Clear filters</button></${Empty}>`
    : html`<${Empty} title="No workflows yet">Define one in a Rust program, with <code>PUT /workflows/hello</code>, or in the server's config file:
        <div><pre>${'[[workflow]]\nname = "hello"\nurl = "http://127.0.0.1:3000/hello"\nconcurrency = { limit = 2 }'}</pre></div></${Empty}>`;
