import { html } from '../../lib/html.mjs';
import { RunLink } from '../../ui/link.mjs';
import { Until } from '../../ui/time.mjs';

/** A value in a few words. @param {unknown} value */
function brief(value) {
  const text = JSON.stringify(value) ?? '';
  return text.length > 80 ? `${text.slice(0, 80)} …` : text;
}

/** How far it says it is. @param {{ progress: { permille: number, text?: string } }} props */
export function Progress({ progress }) {
  const percent = progress.permille / 10;
  return html`<span class="fill"><span class="fill-bar" role="img" aria-label=${`${percent} %`}><span style=${{ width: `${percent}%` }}></span></span>
    <span class="num">${Math.round(percent)} %</span> <span class="soft">${progress.text}</span></span>`;
}

/** How a run ended, or what it does until then, in half a line.
 *  @param {{ run: any }} props */
export function Stands({ run }) {
  const waits = run.waitsFor;
  if (run.error) return html`<span title=${run.error.message}><b class="run-bad">${run.error.code}</b> <span class="soft">${run.error.message}</span></span>`;
  if (run.replacedBy) return html`<span class="soft">replaced by <${RunLink} id=${run.replacedBy} /></span>`;
  if (run.survivor) return html`<span class="soft" title="it has the same idempotency key">duplicate of <${RunLink} id=${run.survivor} /></span>`;
  if (run.state === 'cancelled') return html`<span class="soft" title=${run.reason}>${run.reason}</span>`;
  if (run.progress && run.state !== 'completed') return html`<${Progress} progress=${run.progress} />`;
  if (run.state === 'completed') return html`<span class="faint id" title="what it returned">${run.output === undefined || run.output === null ? '' : brief(run.output)}</span>`;
  if (run.state === 'waiting') return run.dueAt ? html`<span class="soft">goes on <${Until} at=${run.dueAt} /></span>` : html`<span class="soft">waits for something to come</span>`;
  if (run.state === 'paused') return html`<span class="soft">until it is resumed</span>`;
  if (waits && waits.control === 'workers') return html`<span title="it has passed all gates">waits for <span class="badge wait">workers</span></span>`;
  if (waits) return html`<span title="it stands in line there">in line at <span class="badge wait">${waits.control}</span> ${waits.key}</span>`;
  if (run.replaced) return html`<span class="soft">took the place of <${RunLink} id=${run.replaced} /></span>`;
  return null;
}
