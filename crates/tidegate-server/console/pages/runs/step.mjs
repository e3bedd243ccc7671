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
const KINDS = { run: 'ran code', sleep: 'slept', event: 'waited for an event', signal: 'waited for a signal', invoke: 'called a child', send: 'sent an event', state: 'used the session', compensate: 'said how to undo', commit: 'committed to a stream' };

/** What a step has left behind. @param {{ run: any, id: string, steps: any[], ended: boolean, close: () => void }} props */
export function StepDrawer({ run, id, steps, ended, close }) {
  const step = steps.find((it) => it.id === id);
  const before = steps.indexOf(step);
  async function retry() {
    const yes = await confirm({ title: `Run it again from “${id}”?`, yes: 'Retry from here', text: html`<p>A new run remembers ${before === 0 ? 'nothing' : before === 1 ? 'the step before' : `the ${before} steps before`} and begins with this one. It keeps the effect keys, so that others recognise a repeat.</p>` });
    if (yes) another(() => post(path`/runs/${run.id}/retry`, { from: id }), close);
  }
  return html`<${Drawer} title=${html`Step <code>${id}</code>`} close=${close}>
    ${!step
      ? html`<${Empty} title="It has recorded nothing yet">A step is recorded when it is done.</${Empty}>`
      : html`<dl class="pairs">
          <dt>Did</dt><dd>${KINDS[step.kind] ?? step.kind} <${Badge}>${step.kind}</${Badge}></dd>
          <dt>Ended</dt><dd><${State} state=${step.error ? 'failed' : 'completed'} /></dd>
          <dt>Recorded</dt><dd><${Time} at=${step.at} /></dd>
          <dt>Effect key</dt><dd><code>${run.id}:${id}</code></dd>
        </dl>
        ${step.error
          ? html`<section><h3>Error</h3><p class="error-text"><b>${step.error.code}</b> ${step.error.message}</p></section>`
          : html`<section><h3>What it gave</h3><${Json} value=${step.output} label="What the step gave" /></section>`}
        ${ended
          ? html`<p><button type="button" onClick=${retry}>Retry from here …</button></p>`
          : html`<p class="faint">When the run has ended it can be tried again from here.</p>`}`}
  </${Drawer}>`;
}
