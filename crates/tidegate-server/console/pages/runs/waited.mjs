import { html } from '../../lib/html.mjs';
import { span } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';

/** How long it stood in which line or waited for a worker, summing to the whole. @param {{ timeline: any, ended: boolean }} props */
export function Waited({ timeline, ended }) {
  const parts = /** @type {any[]} */ (timeline.waited ?? []).filter((it) => it.ms > 0);
  const whole = timeline.waitedMs ?? 0;
  if (parts.length === 0) return html`<p class="faint">${ended ? 'Nowhere: it was let in and driven at once.' : 'Nowhere yet.'}</p>`;
  const tone = (/** @type {any} */ it, /** @type {number} */ i) => (it.control === '' ? 'still' : `wait shade${i % 3}`);
  return html`<div class="waited-bar" aria-hidden="true">${parts.map((it, i) => html`<span class=${tone(it, i)} style=${{ width: `${(100 * it.ms) / Math.max(1, whole)}%` }}></span>`)}</div>
    <table class="table waited" aria-label="Waited, by gate">
      <thead><tr><th scope="col">Waited at</th><th scope="col">Key</th><th scope="col" class="num">For</th><th scope="col" class="num">Share</th></tr></thead>
      <tbody>${parts.map((it, i) => html`<tr><td><span class=${`fall-key ${tone(it, i)}`}>${it.control || 'a worker'}</span></td>
        <td>${it.control ? html`<a href=${to('gates', { control: it.control, key: it.key })}><code>${it.key}</code></a>` : html`<span class="faint" title="every gate was passed">–</span>`}</td>
        <td class="num">${span(it.ms)}</td><td class="num">${Math.round((100 * it.ms) / Math.max(1, whole))} %</td></tr>`)}
      <tr class="sum"><td><b>${ended ? 'in all' : 'so far'}</b></td><td></td><td class="num"><b>${span(whole)}</b></td><td class="num">100 %</td></tr></tbody>
    </table>`;
}
