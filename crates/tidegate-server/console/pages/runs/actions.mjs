import { html } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { setQuery } from '../../lib/route.mjs';
import { act } from '../../ui/toast.mjs';
import { askReason } from './reason.mjs';

export const over = (/** @type {any} */ run) => ['completed', 'failed', 'cancelled'].includes(run?.state);

/** @param {any} run after the pause request */
function paused(run) {
  if (run.state === 'paused') return 'Run paused.';
  return run.state === 'running' ? 'Run pauses after its current step.' : 'Run keeps its position in the queue and pauses once it is admitted.';
}

/** Actions for a run in its current state. @param {{ run: any, again: () => void }} props */
export function Actions({ run, again }) {
  /** @param {string} what @param {unknown} body @param {string | ((run: any) => string)} done */
  const does = (what, body, done) => act(() => post(path`/runs/${run.id}/` + what, body), done).then(again);
  async function cancel() {
    const reason = await askReason({ title: 'Cancel this run?', yes: 'Cancel run', text: html`<p>The run commits no further steps, and the child runs that it waits for are cancelled too. This cannot be undone, but the run can be replayed.</p>` });
    if (reason !== null) does('cancel', reason ? { reason } : {}, 'Run cancelled.');
  }
  if (!run.workflow) return null;
  if (over(run)) return html`<div class="actions"><button type="button" onClick=${() => setQuery({ do: 'replay' })}>Replay …</button></div>`;
  return html`<div class="actions">
    <button type="button" onClick=${() => setQuery({ do: 'signal' })}>Send signal …</button>
    ${run.state === 'paused'
      ? html`<button type="button" class="primary" onClick=${() => does('resume', undefined, 'Run resumed.')}>Resume</button>`
      : html`<button type="button" onClick=${() => does('pause', undefined, paused)}>Pause</button>`}
    <button type="button" onClick=${cancel}>Cancel …</button>
  </div>`;
}
