import { html } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { confirm } from '../../ui/confirm.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { Empty } from '../../ui/empty.mjs';
import { Json } from '../../ui/json.mjs';
import { Badge, State } from '../../ui/state.mjs';
import { Time } from '../../ui/time.mjs';
import { another } from './again.mjs';

/** @type {Record<string, string>} */
const KINDS = { run: 'ran code', sleep: 'slept', event: 'waited for an event', signal: 'waited for a signal', invoke: 'called a child', send: 'sent an event', state: 'used the session', compensate: 'registered a compensation', commit: 'committed to a stream' };

/** Details of a step. @param {{ run: any, id: string, steps: any[], ended: boolean, close: () => void }} props */
export function StepDrawer({ run, id, steps, ended, close }) {
  const step = steps.find((it) => it.id === id);
  const before = steps.indexOf(step);
  async function retry() {
    const yes = await confirm({ title: `Retry from step “${id}”?`, yes: 'Retry from here', text: html`<p>A new run ${before === 0 ? 'starts' : before === 1 ? 'reuses the result of the step before and starts' : `reuses the results of the ${before} steps before and starts`} with this one. It keeps the effect keys, so that other services can recognise repeated calls.</p>` });
    if (yes) another(() => post(path`/runs/${run.id}/retry`, { from: id }), close);
  }
  return html`<${Drawer} title=${html`Step <code>${id}</code>`} close=${close}>
    ${!step
      ? html`<${Empty} title="Not recorded yet">A step is recorded when it has completed.</${Empty}>`
      : html`<dl class="pairs">
          <dt>Kind</dt><dd>${KINDS[step.kind] ?? step.kind} <${Badge}>${step.kind}</${Badge}></dd>
          <dt>Status</dt><dd><${State} state=${step.error ? 'failed' : 'completed'} /></dd>
          <dt>Recorded at</dt><dd><${Time} at=${step.at} /></dd>
          <dt>Effect key</dt><dd><code>${run.id}:${id}</code></dd>
        </dl>
        ${step.error
          ? html`<section><h3>Error</h3><p class="error-text"><b>${step.error.code}</b> ${step.error.message}</p></section>`
          : html`<section><h3>Output</h3><${Json} value=${step.output} label="Output of the step" /></section>`}
        ${ended
          ? html`<p><button type="button" onClick=${retry}>Retry from here …</button></p>`
          : html`<p class="faint">Retry from here is available when the run has ended.</p>`}`}
  </${Drawer}>`;
}
