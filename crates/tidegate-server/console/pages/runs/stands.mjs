import { html } from '../../lib/html.mjs';
import { keyNote } from '../../lib/format.mjs';
import { RunLink } from '../../ui/link.mjs';
import { Until } from '../../ui/time.mjs';

/** Shortened JSON of a value. @param {unknown} value */
function brief(value) {
  const text = JSON.stringify(value) ?? '';
  return text.length > 80 ? `${text.slice(0, 80)} …` : text;
}

/** Progress that a run reports. @param {{ progress: { permille: number, text?: string } }} props */
export function Progress({ progress }) {
  const percent = progress.permille / 10;
  return html`<span class="fill"><span class="fill-bar" role="img" aria-label=${`${percent} %`}><span style=${{ width: `${percent}%` }}></span></span>
    <span class="num">${Math.round(percent)} %</span> <span class="soft">${progress.text}</span></span>`;
}

/** Details of a run in one line: its error, output, progress, or what it is blocked by.
 *  @param {{ run: any }} props */
export function Stands({ run }) {
  const waits = run.waitsFor;
  if (run.error) return html`<span title=${run.error.message}><b class="run-bad">${run.error.code}</b> <span class="soft">${run.error.message}</span></span>`;
  if (run.replacedBy) return html`<span class="soft">replaced by <${RunLink} id=${run.replacedBy} /></span>`;
  if (run.survivor) return html`<span class="soft" title="same idempotency key">duplicate of <${RunLink} id=${run.survivor} /></span>`;
  if (run.state === 'cancelled') return html`<span class="soft" title=${run.reason}>${run.reason}</span>`;
  if (run.progress && run.state !== 'completed') return html`<${Progress} progress=${run.progress} />`;
  if (run.state === 'completed') return html`<span class="faint id" title="output">${run.output === undefined || run.output === null ? '' : brief(run.output)}</span>`;
  if (run.state === 'waiting') return run.dueAt ? html`<span class="soft">continues <${Until} at=${run.dueAt} /></span>` : html`<span class="soft">waiting for an event, a signal or a child</span>`;
  if (run.state === 'paused') return html`<span class="soft">paused until resumed</span>`;
  if (waits && waits.control === 'workers') return html`<span title="the run has passed all gates">ready: <span class="badge wait">no free worker</span></span>`;
  if (waits) return html`<span title="the run is queued at this gate">blocked by <span class="badge wait">${waits.control}</span>${keyNote(waits.key)}</span>`;
  if (run.replaced) return html`<span class="soft">replaced <${RunLink} id=${run.replaced} /></span>`;
  return null;
}
