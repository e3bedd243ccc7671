import { html } from '../../lib/html.mjs';
import { path } from '../../lib/api.mjs';
import { table } from '../../lib/controls.mjs';
import { useFetched } from '../../lib/data.mjs';
import { count } from '../../lib/format.mjs';
import { setQuery, to } from '../../lib/route.mjs';
import { controlsOf, lasting } from '../../ui/controls.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { Stale, notYet } from '../../ui/empty.mjs';
import { Json } from '../../ui/json.mjs';
import { Badge } from '../../ui/state.mjs';
import { Hover } from '../gates/hover.mjs';
import { ControlCard } from './control.mjs';
import { byWorkflow, sum } from './numbers.mjs';
import { Triggers, events } from './triggers.mjs';
import { Versions } from './versions.mjs';

/** Details of a workflow with live numbers for each control. @param {{ name: string, app: string }} props */
export function WorkflowDrawer({ name, app }) {
  const fetched = useFetched(path`/workflows/${name}`, { app });
  const close = () => setQuery({ open: undefined, app: undefined });
  const it = fetched.value;
  const title = html`${name} ${it?.version !== undefined && html`<${Badge}>v${it.version}</${Badge}>`} ${app !== 'default' && html`<span class="faint">${app}</span>`}`;
  return html`<${Drawer} title=${title} close=${close} wide>
    ${notYet(fetched)}
    ${it && html`<${Stale} error=${fetched.error} /><${Body} workflow=${it} again=${fetched.again} />`}
  </${Drawer}>`;
}

/** @param {{ workflow: any, again: () => void }} props */
function Body({ workflow, again }) {
  const { app, name, definition } = workflow;
  const list = byWorkflow().get(`${app}/${name}`) ?? [];
  const folds = useFetched('/flow-state', { app, workflow: name });
  const folding = folds.value?.workflows?.[0];
  const controls = controlsOf(workflow.flowControl, table.value);
  const flow = definition?.flow;
  const changeable = Boolean(workflow.url) && !flow;
  const of = { workflow: name, app: app === 'default' ? undefined : app };
  return html`
    <${Figures} numbers=${sum(list)} folding=${folding} controls=${controls} of=${of} />
    <dl class="pairs">
      <dt>Triggers</dt><dd><${Triggers} workflow=${workflow} /></dd>
      <dt>Handler</dt><dd>${workflow.url ? html`<code>${workflow.url}</code>` : html`in process, on engines that register this workflow`}</dd>
      ${definition?.onTooMany && html`<dt>On 429 or 503</dt><dd>closes <code>${definition.onTooMany.close}</code> until the time in <code>Retry-After</code>, for at most ${lasting(definition.onTooMany.maxCloseMs ?? 900_000)}</dd>`}
      ${(definition?.waitsFor ? [definition.waitsFor].flat() : []).map((/** @type {any} */ it) => html`<dt>Keeps</dt><dd>events <code>${it.event}</code> from the admission on, for a later wait</dd>`)}
      <dt>Links</dt><dd><a href=${to('runs', of)}>Runs</a> · <a href=${to('gates', of)}>Gates</a> · <a href=${to('try', flow ? { flow, action: definition.name } : { name: events(workflow)[0] })}>Try it</a>${
        flow ? html` · <a href=${to('flows', { open: flow })}>Flow ${flow}</a>` : ''}</dd>
    </dl>
    <section class="stack"><div class="head-line"><h3>Controls</h3>${controls.length > 1 && html`<span class="faint">in the order in which they act</span>`}</div>
      ${controls.length === 0 && html`<p class="faint">None: every run starts at once.</p>`}
      ${controls.map((control) => html`<${ControlCard} key=${control.at.join()} ...${{ control, workflow, folding, changeable, again }} />`)}
      ${controls.length > 0 && !changeable && html`<p class="faint">${flow
        ? html`Action of the flow ${flow}: change its numbers where the flow is defined, in the server's config file or in code.`
        : 'Defined in code: change its numbers there and release the program.'}</p>`}
    </section>
    <${Versions} workflow=${workflow} list=${list} again=${again} />
    <section><h3>Definition</h3><${Json} value=${definition} label="Definition" /></section>
    <${Hover} />`;
}

/** @param {{ numbers: any, folding: any, controls: any[], of: Record<string, unknown> }} props */
function Figures({ numbers, folding, controls, of }) {
  const has = (/** @type {string} */ name) => controls.some((it) => it.control === name || it.it.policy === name);
  const figures = /** @type {[string, number, string, string, string][]} */ ([
    ['In flight', numbers.inFlight, 'go', to('runs', { ...of, state: 'running' }), 'runs that a worker is executing'],
    ['Queued', numbers.queued, 'wait', to('runs', { ...of, state: 'queued' }), 'admitted and not started, or waiting for a slot'],
    ['Waiting', numbers.waiting, 'idle', to('runs', { ...of, state: 'waiting' }), 'waiting for a timer, an event, a signal, a child or a retry'],
  ]);
  if (has('debounce')) figures.push(['Coalescing', folding?.debounce.pending ?? 0, 'wait', to('gates', { ...of, control: 'debounce' }), 'events in open debounce windows']);
  if (has('batch')) figures.push(['Buffered', folding?.batch.pending ?? 0, 'wait', to('gates', { ...of, control: 'batch' }), 'events in open batch buffers']);
  if (numbers.paused > 0) figures.push(['Paused', numbers.paused, '', to('runs', { ...of, state: 'paused' }), 'paused by an operator']);
  if (numbers.stranded > 0) figures.push(['Stranded', numbers.stranded, 'bad', to('runs', of), 'runs whose version no live engine serves']);
  return html`<section class="cards small" aria-label="Now">${figures.map(([name, n, tone, href, title]) => html`<a class="card" href=${href} title=${title}>
    <div class="figure-name">${name}</div><div class=${`figure ${n > 0 ? tone : ''}`} data-figure=${name}>${count(n)}${numbers.atLeast ? '+' : ''}</div></a>`)}</section>`;
}
