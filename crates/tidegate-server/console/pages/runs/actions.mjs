import { html } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { setQuery } from '../../lib/route.mjs';
import { act } from '../../ui/toast.mjs';
import { askReason } from './reason.mjs';

export const over = (/** @type {any} */ run) => ['completed', 'failed', 'cancelled'].includes(run?.state);

/** @param {any} run as it is after it was told to pause */
function paused(run) {
  if (run.state === 'paused') return 'It is paused.';
  return run.state === 'running' ? 'It pauses when its step is done.' : 'It keeps its place in line, and pauses once it is let in.';
}

/** What can be done to a run as it is. @param {{ run: any, again: () => void }} props */
export function Actions({ run, again }) {
  /** @param {string} what @param {unknown} body @param {string | ((run: any) => string)} done */
  const does = (what, body, done) => act(() => post(path`/runs/${run.id}/` + what, body), done).then(again);
  async function cancel() {
    const reason = await askReason({ title: 'Cancel this run?', yes: 'Cancel it', text: html`<p>Nothing more of it is committed from then on, and the children that it waits for go with it. This cannot be taken back; it can be replayed.</p>` });
    if (reason !== null) does('cancel', reason ? { reason } : {}, 'It is cancelled.');
  }
  if (!run.workflow) return null;
  if (over(run)) return html`<div class="actions"><button type="button" onClick=${() => setQuery({ do: 'replay' })}>Replay …</button></div>`;
  return html`<div class="actions">
    <button type="button" onClick=${() => setQuery({ do: 'signal' })}>Send a signal …</button>
    ${run.state === 'paused'
      ? html`<button type="button" class="primary" onClick=${() => does('resume', undefined, 'It goes on.')}>Resume</button>`
      : html`<button type="button" onClick=${() => does('pause', undefined, paused)}>Pause</button>`}
    <button type="button" onClick=${cancel}>Cancel …</button>
  </div>`;
}
