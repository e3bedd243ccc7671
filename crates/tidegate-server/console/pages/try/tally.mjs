// Results of a burst: the number of each outcome, also by key, and the last verdicts.
import { html } from '../../lib/html.mjs';
import { count, span } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';
import { State, toneOf } from '../../ui/state.mjs';
import { VerdictLine } from './verdict.mjs';

const ORDER = ['started', 'replaced', 'queued', 'coalesced', 'buffered', 'deduped', 'skipped', 'dropped', 'rejected', 'recorded'];

/** @param {Map<string, number>} counts */
const sorted = (counts) => [...counts].sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b));
/** @param {Map<string, number>} counts */
const sum = (counts) => [...counts.values()].reduce((all, n) => all + n, 0);

/** @param {{ counts: Map<string, number>, most: number }} props */
const Bar = ({ counts, most }) =>
  html`<span class="share-bar" role="img" aria-label=${sorted(counts).map(([word, n]) => `${n} ${word}`).join(', ')}>
    ${sorted(counts).map(([word, n]) => html`<span class=${toneOf(word)} title=${`${n} ${word}`} style=${{ width: `${(100 * n) / Math.max(1, most)}%` }}></span>`)}</span>`;

/** @param {{ tally: import('./send.mjs').Tally, most?: number }} props `most`: number of keys drawn */
export function Shares({ tally, most: drawn = 12 }) {
  const keys = [...tally.keys].sort(([, a], [, b]) => sum(b) - sum(a));
  const most = Math.max(1, ...keys.map(([, counts]) => sum(counts)));
  return html`<ul class="outcomes">${sorted(tally.counts).map(([word, n]) => html`<li key=${word}><b class="num">${count(n)}</b> <${State} state=${word} /></li>`)}</ul>
    ${(keys.length > 1 || keys[0]?.[0]) && html`<table class="shares" aria-label="Outcomes by key"><tbody>${keys.slice(0, drawn).map(([key, counts]) => html`<tr key=${key}>
      <th scope="row"><code>${key || '–'}</code></th><td><${Bar} counts=${counts} most=${most} /></td>
      <td class="num faint">${sorted(counts).map(([word, n]) => `${n} ${word}`).join(' · ')}</td></tr>`)}</tbody></table>
      ${keys.length > drawn && html`<p class="faint">and ${count(keys.length - drawn)} more</p>`}`}`;
}

/** @param {{ tally: import('./send.mjs').Tally, stop: () => void, workflows: string[] }} props */
export function Told({ tally, stop, workflows }) {
  return html`<div class="stack" aria-live="off">
    <div class="line-head"><p><b class="num">${count(tally.sent)}</b> of ${count(tally.total)} sent${tally.over ? '' : ' …'} <span class="faint">in ${span(tally.ms)}</span></p>
      ${!tally.over && html`<button type="button" onClick=${stop}>Stop</button>`}</div>
    ${tally.problem && html`<p class="problem" role="alert">${tally.problem}</p>`}
    <${Shares} tally=${tally} />
    ${workflows.length > 0 && html`<p class="soft">${workflows.map((name) => html`<span class="taker" key=${name}>${name}: <a href=${to('gates', { workflow: name.split('/')[0] })}>gates</a>, <a href=${to('runs', { workflow: name })}>runs</a></span> `)}</p>`}
    ${tally.last.length > 0 && html`<section><h3>Last verdicts</h3><ul class="told-list tall" tabindex="0" aria-label="Last verdicts">
      ${tally.last.map((it) => html`<${VerdictLine} key=${`${it.n}/${it.workflow}`} it=${{ ...it, key: it.key ?? (it.of || undefined) }} />`)}</ul></section>`}
  </div>`;
}
