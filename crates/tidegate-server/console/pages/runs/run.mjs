// Page of one run: explanation of its state, timeline, queue time, lineage, input and output.
import { html, useEffect, useState } from '../../lib/html.mjs';
import { path } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { route, setQuery, to } from '../../lib/route.mjs';
import { Failed, Stale, notYet } from '../../ui/empty.mjs';
import { Json } from '../../ui/json.mjs';
import { WorkflowLink } from '../../ui/link.mjs';
import { State } from '../../ui/state.mjs';
import { Time, Took } from '../../ui/time.mjs';
import { Actions, over } from './actions.mjs';
import { Replay, Signal } from './again.mjs';
import { Lineage } from './lineage.mjs';
import { Output, useOutput } from './output.mjs';
import { Progress } from './stands.mjs';
import { StepDrawer } from './step.mjs';
import { ToCome } from './to-come.mjs';
import { Waited } from './waited.mjs';
import { Waterfall } from './waterfall.mjs';
import { Why } from './why.mjs';

/** Refresh intervals of the history while it grows, in ms; the longer one for long histories. */
const SOON = 1500;
const LATER = 10_000;

/** @param {{ run: any, began?: string, children?: any }} props */
function Head({ run, began, children }) {
  return html`<div class="run-head">
    <p class="crumbs"><a href=${to('runs')}>Runs</a> / <code>${run.id}</code></p>
    <div class="page-head"><h1><${State} state=${run.state} /> ${run.workflow ? html`<${WorkflowLink} app=${run.app} name=${run.workflow} version=${run.version} />` : 'Pending run'}</h1>${children}</div>
    ${run.queuedAt && html`<dl class="times">
      <div><dt>Queued at</dt><dd><${Time} at=${run.queuedAt} /></dd></div>
      <div><dt>Started at</dt><dd><${Time} at=${began} /></dd></div>
      <div><dt>Ended at</dt><dd><${Time} at=${run.endedAt} /></dd></div>
      <div><dt>${over(run) ? 'Duration' : 'Age'}</dt><dd><${Took} from=${run.queuedAt} to=${run.endedAt} /></dd></div>
      ${run.dueAt && !over(run) && html`<div><dt>Due</dt><dd><${Time} at=${run.dueAt} /></dd></div>`}
      ${run.progress && html`<div><dt>Progress</dt><dd><${Progress} progress=${run.progress} /></dd></div>`}
    </dl>`}
  </div>`;
}

/** @param {{ run: any }} props */
function Values({ run }) {
  return html`<div class="columns">
    <section class="card"><h2>Input</h2><${Json} value=${run.input} label="Input" /></section>
    <section class="card"><h2>${run.error ? 'Error' : 'Output'}</h2>${run.error
      ? html`<p class="error-text"><b>${run.error.code}</b> ${run.error.message}</p>`
      : run.state === 'completed' ? html`<${Json} value=${run.output} label="Output" />`
      : html`<p class="faint">${over(run) ? 'None: the run was cancelled.' : 'The run has not ended yet.'}</p>`}</section>
  </div>`;
}

/** @param {{ id: string }} props */
export function RunPage({ id }) {
  const at = path`/runs/${id}`;
  const [ended, end] = useState(false);
  const run = useFetched(at, {}, { live: !ended });
  useEffect(() => { if (over(run.value)) end(true); }, [run.value]);
  const exists = Boolean(run.value?.workflow);
  const why = useFetched(`${at}/why`, {}, { live: !ended });
  const timeline = useFetched(exists ? `${at}/timeline` : null, {}, { live: false });
  const steps = useFetched(exists ? `${at}/steps` : null, {}, { live: false });
  const many = steps.value?.steps.length ?? 0;
  function history() {
    timeline.again();
    steps.again();
  }
  const said = useOutput(id, () => { run.again(); why.again(); history(); });
  useEffect(() => {
    if (!exists) return;
    history();
    if (ended) return;
    const timer = setInterval(() => { if (!document.hidden) history(); }, many > 300 ? LATER : SOON);
    return () => clearInterval(timer);
  }, [exists, ended, many > 300, run.value?.state]);
  useEffect(() => { if (run.value?.workflow) document.title = `${run.value.workflow} · ${run.value.state} · Tidegate`; }, [run.value?.state]);
  useEffect(() => document.querySelector('main')?.scrollTo({ top: 0 }), [id]);
  const { query } = route.value;
  const close = () => setQuery({ do: undefined, step: undefined });
  if (!run.value) return html`<p class="crumbs"><a href=${to('runs')}>Runs</a> / <code>${id}</code></p>${notYet(run)}`;
  const doing = query.get('do');
  const step = query.get('step');
  const all = steps.value?.steps ?? [];
  return html`
    <${Head} run=${run.value} began=${timeline.value?.startedAt}><${Actions} run=${run.value} again=${() => { run.again(); why.again(); history(); }} /></${Head}>
    <${Stale} error=${run.error} />
    <div class="stack">
      ${why.value && html`<${Why} why=${why.value} />`}
      ${!exists && run.value.sentence && html`<${ToCome} id=${id} fold=${why.value?.fold} />`}
      ${exists && html`
        <section class="card"><h2>Timeline</h2>${timeline.value
          ? html`<${Waterfall} timeline=${timeline.value} steps=${all} />`
          : timeline.error ? html`<${Failed} error=${timeline.error} again=${timeline.again} />` : html`<p class="faint">Loading …</p>`}</section>
        <div class="columns">
          <section class="card"><h2>Queue time by gate</h2>${timeline.value && html`<${Waited} timeline=${timeline.value} ended=${ended} />`}</section>
          <section class="card"><h2>Lineage</h2><${Lineage} run=${run.value} /></section>
        </div>
        ${said.parts.length > 0 && html`<${Output} parts=${said.parts} left=${said.left} live=${!ended} />`}
        <${Values} run=${run.value} />`}
    </div>
    ${doing === 'replay' && exists && html`<${Replay} run=${run.value} close=${close} />`}
    ${doing === 'signal' && exists && html`<${Signal} run=${run.value} waits=${why.value?.waits ?? []} close=${close} again=${() => run.again()} />`}
    ${step && steps.value && html`<${StepDrawer} key=${step} run=${run.value} id=${step} steps=${all} ended=${ended} close=${close} />`}`;
}
