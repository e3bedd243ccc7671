import { html } from '../../lib/html.mjs';
import { span } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';
import { keyWords } from '../gates/gate.mjs';

/** Queue time by gate and time waiting for a worker, which sum to the total. @param {{ timeline: any, ended: boolean }} props */
export function Waited({ timeline, ended }) {
  const parts = /** @type {any[]} */ (timeline.waited ?? []).filter((it) => it.ms > 0);
  const whole = timeline.waitedMs ?? 0;
  if (parts.length === 0) return html`<p class="faint">${ended ? 'None: the run started at once.' : 'None so far.'}</p>`;
  const tone = (/** @type {any} */ it, /** @type {number} */ i) => (it.control === '' ? 'still' : `wait shade${i % 3}`);
  return html`<div class="waited-bar" aria-hidden="true">${parts.map((it, i) => html`<span class=${tone(it, i)} style=${{ width: `${(100 * it.ms) / Math.max(1, whole)}%` }}></span>`)}</div>
    <table class="table waited" aria-label="Queue time by gate">
      <thead><tr><th scope="col">Gate</th><th scope="col">Key</th><th scope="col" class="num">Time</th><th scope="col" class="num">Share</th></tr></thead>
      <tbody>${parts.map((it, i) => html`<tr><td><span class=${`fall-key ${tone(it, i)}`}>${it.control || 'workers'}</span></td>
        <td>${it.control ? html`<a href=${to('gates', { control: it.control, key: it.key })}><code>${keyWords(it)}</code></a>` : html`<span class="faint" title="the run had passed all gates">–</span>`}</td>
        <td class="num">${span(it.ms)}</td><td class="num">${Math.round((100 * it.ms) / Math.max(1, whole))} %</td></tr>`)}
      <tr class="sum"><td><b>${ended ? 'total' : 'total so far'}</b></td><td></td><td class="num"><b>${span(whole)}</b></td><td class="num">100 %</td></tr></tbody>
    </table>`;
}
