// Overview: running, queued and waiting runs, throughput, longest queues, workers.
import { html } from '../lib/html.mjs';
import { blocked, busiest, connected, counts, folds, points, workers } from '../lib/live.mjs';
import { count, span } from '../lib/format.mjs';
import { to } from '../lib/route.mjs';
import { Chart } from '../ui/chart.mjs';
import { Empty } from '../ui/empty.mjs';
import { Fill } from '../ui/fill.mjs';
import { WorkflowLink } from '../ui/link.mjs';
import { Ago, Until } from '../ui/time.mjs';
import { keyWords } from './gates/gate.mjs';

const perSecond = (/** @type {number} */ n) => `${n < 10 ? Number(n.toFixed(1)) : count(Math.round(n))}/s`;

/** @param {{ name: string, value: number, tone?: string, href: string, title: string, atLeast?: boolean }} props */
const Figure = ({ name, value, tone = '', href, title, atLeast }) =>
  html`<a class="card" href=${href} title=${title}>
    <div class="figure-name">${name}</div>
    <div class=${`figure ${value > 0 ? tone : ''}`} data-figure=${name}>${count(value)}${atLeast ? '+' : ''}</div>
  </a>`;

function Figures() {
  const { inFlight, queued, waiting, paused, stranded = 0, atLeast } = counts.value;
  return html`<section class="cards" aria-label="Now">
    <${Figure} name="In flight" value=${inFlight} tone="go" href=${to('runs', { state: 'running' })} title="runs that a worker is executing" ...${{ atLeast }} />
    <${Figure} name="Queued" value=${queued} tone="wait" href=${to('runs', { state: 'queued' })} title="admitted and not started, or waiting for a slot" ...${{ atLeast }} />
    <${Figure} name="Waiting" value=${waiting} tone="idle" href=${to('runs', { state: 'waiting' })} title="waiting for a timer, an event, a signal, a child or a retry" ...${{ atLeast }} />
    <${Figure} name="Paused" value=${paused} href=${to('runs', { state: 'paused' })} title="paused by an operator" />
    <${Figure} name="Debouncing" value=${folds.value.debounce} tone="wait" href=${to('gates', { control: 'debounce' })} title="events in open debounce windows" />
    <${Figure} name="Batching" value=${folds.value.batch} tone="wait" href=${to('gates', { control: 'batch' })} title="events in open batch buffers" />
    <${Figure} name="Stranded" value=${stranded} tone="bad" href=${to('runs')} title="runs whose version no live engine serves" />
    <${Figure} name="Blocked" value=${blocked.value} tone="bad" href=${to('streams', { blocked: 'true' })} title="streams on which a reaction is blocked" />
  </section>`;
}

function Busiest() {
  const gates = busiest.value;
  return html`<section class="card"><h2>Longest queues</h2>
    ${gates.length === 0
      ? html`<p class="faint">All queues are empty.</p>`
      : html`<table class="table" aria-label="Gates with the longest queues">
        <thead><tr><th scope="col">Gate</th><th scope="col">Key</th><th scope="col" class="hide-phone">Limit</th><th scope="col" class="num">Queued</th><th scope="col" class="num hide-phone">Oldest</th></tr></thead>
        <tbody>${gates.map((gate) => html`<tr data-row tabindex="0" key=${`${gate.control}/${gate.pool ?? gate.workflow}/${gate.slot}/${gate.key}`}>
          <td><span class="badge accent">${gate.control}</span> ${gate.pool ? html`<a href=${to('gates', { pool: gate.pool })}>pool ${gate.pool}</a>` : html`<${WorkflowLink} app=${gate.app} name=${gate.workflow} />`}</td>
          <td><a href=${to('gates', { control: gate.control, workflow: gate.workflow || undefined, pool: gate.pool, key: gate.key })}><code>${keyWords(gate)}</code></a></td>
          <td class="hide-phone">${gate.perMs ? html`next <${Until} at=${gate.nextAt} />` : html`<${Fill} value=${gate.inside ?? 0} of=${gate.limit} label="inside" />`}</td>
          <td class="num"><b>${count(gate.line?.count ?? 0)}${gate.line?.atLeast ? '+' : ''}</b></td>
          <td class="num hide-phone"><${Ago} at=${gate.line?.since} /></td></tr>`)}</tbody></table>`}
  </section>`;
}

/** Number of workflows listed by name. */
const NAMED = 5;

/** Workflows that the workers of a kind are executing. @param {{ of: import('../lib/live.mjs').Workers }} props */
function BusyWith({ of }) {
  const others = of.with.slice(NAMED).reduce((sum, it) => sum + it.runs, 0);
  const said = of.with.slice(0, NAMED).map((it) => html`${count(it.runs)} × <code>${it.workflow}</code>`);
  if (others > 0) said.push(html`${count(others)} × others`);
  if (of.elsewhere) said.push(html`${count(of.elsewhere)} for other workspaces`);
  return said.length === 0 ? html`<span class="faint">idle</span>` : html`${said.map((it, i) => html`${i > 0 ? ', ' : ''}${it}`)}`;
}

function Workers() {
  const { ready = 0 } = counts.value;
  const used = workers.value.filter((it) => it.busy > 0 || it.kind === 'calls');
  return html`<section class="card"><h2>Workers</h2>
    <p class=${ready > 0 ? '' : 'faint'} data-figure="Ready">${ready > 0
      ? html`<b>${count(ready)}</b> ${ready === 1 ? 'run has' : 'runs have'} passed all gates and ${ready === 1 ? 'waits' : 'wait'} for a worker.`
      : 'No runs are waiting for a worker.'}</p>
    <table class="table" aria-label="Workers of this server">
      <thead><tr><th scope="col">Kind</th><th scope="col">Busy</th><th scope="col" class="hide-phone">Workflows</th></tr></thead>
      <tbody>${used.map((it) => html`<tr key=${it.kind}><td>${it.kind}</td>
        <td><${Fill} value=${it.busy} of=${it.of} label="busy" /></td>
        <td class="wraps hide-phone"><${BusyWith} of=${it} /></td></tr>`)}</tbody></table>
  </section>`;
}

export default function Overview() {
  const last = points.value;
  if (connected.value === null) return html`<h1>Overview</h1>`;
  return html`
    <div class="page-head"><h1>Overview</h1><p>Running, queued and waiting runs.</p></div>
    <${Figures} />
    <div class="columns">
      <section class="card"><${Chart} title="Throughput" about="runs started and ended on this server, per second" points=${last} text=${perSecond} series=${[
        { name: 'started', tone: 'go', of: (/** @type {any} */ it) => it.started },
        { name: 'ended', tone: 'good', of: (/** @type {any} */ it) => it.ended },
      ]} /></section>
      <section class="card"><${Chart} title="Time to start" about="time from admission to first start, of runs started on this server" points=${last} text=${span} series=${[
        { name: 'p50', tone: 'wait', of: (/** @type {any} */ it) => it.waitP50Ms ?? 0 },
        { name: 'p95', tone: 'idle', of: (/** @type {any} */ it) => it.waitP95Ms ?? 0 },
      ]} /></section>
    </div>
    <${Busiest} />
    <${Workers} />
    ${last.length > 5 && last.every((/** @type {any} */ it) => it.started === 0) && counts.value.queued + counts.value.inFlight + counts.value.waiting === 0 &&
      html`<${Empty} title="No recent activity">Send an event from <a href=${to('try')}>Try it</a>, or with <code>tidegate send NAME '{"json": true}'</code>.</${Empty}>`}`;
}
