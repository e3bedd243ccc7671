import { html, useMemo, useState } from '../../lib/html.mjs';
import { now, second } from '../../lib/clock.mjs';
import { plural, span } from '../../lib/format.mjs';
import { route, setQuery } from '../../lib/route.mjs';
import { axis, mostlyWaits } from './axis.mjs';
import { bar, rowsOf, spansOf } from './rows.mjs';

/** Number of rows shown before “Show all”. */
const SHOWN = 60;
/** From this number of bars on, the narrowest are omitted, and the chart is redrawn less often. */
const MANY = 400;

/** Bars that are distinguishable on the screen. @template {{ left: number, right: number }} T @param {T[]} bars */
function apart(bars) {
  if (bars.length < MANY) return bars;
  let last = -1;
  return bars.filter((it) => {
    if (it.right - last < 0.15) return false;
    last = it.right;
    return true;
  });
}

/** @param {{ bars: import('./rows.mjs').Bar[], axis: import('./axis.mjs').Axis }} props */
const Bars = ({ bars, axis: { place } }) =>
  html`<span class="fall-track">${apart(bars.map((it) => ({ ...it, left: place(it.from), right: place(it.to) }))).map((it) =>
    html`<span class=${`fall-bar ${it.tone}${it.open ? ' open' : ''}`} title=${it.title} style=${{ left: `${it.left}%`, width: `${Math.max(0, it.right - it.left)}%` }}></span>`)}</span>`;

/** @param {{ row: import('./rows.mjs').Row, axis: import('./axis.mjs').Axis, chosen: boolean }} props */
function Row({ row, axis: of, chosen }) {
  const label = html`<span class=${`badge ${row.step ? (row.bad ? 'bad' : '') : 'wait'}`}>${row.what}</span> <span class="fall-name">${row.name}</span>`;
  const said = row.bars.map((it) => it.title).join('; ');
  return html`<li class=${`fall-row${chosen ? ' chosen' : ''}`}>
    ${row.step
      ? html`<button type="button" class="fall-label" data-row onClick=${() => setQuery({ step: row.name })} title=${`Details of ${row.name}`}>${label}</button>`
      : html`<span class="fall-label" title=${`${row.what} ${row.name}`}>${label}</span>`}
    <${Bars} bars=${row.bars} axis=${of} /><span class="visually-hidden">${said}</span>
    <span class="num fall-ms">${row.bars.length ? span(row.ms) : ''}</span>
  </li>`;
}

/** Row with all spans of the run. @param {{ spans: import('./axis.mjs').Span[], axis: import('./axis.mjs').Axis }} props */
function Whole({ spans, axis: of }) {
  return html`<li class="fall-row whole"><span class="fall-label"><b>total</b></span><${Bars} bars=${spans.map(bar)} axis=${of} />
    <span class="num fall-ms"><b>${span(spans[spans.length - 1].to - spans[0].from)}</b></span></li>`;
}

const KEYS = [['wait', 'queued'], ['still', 'ready'], ['go', 'running'], ['idle', 'waiting'], ['good', 'step'], ['bad', 'failed'], ['rest', 'paused'], ['several', 'not recorded individually']];

/** Steps, attempts and waits of a run on one axis. @param {{ timeline: any, steps: any[] }} props */
export function Waterfall({ timeline, steps }) {
  const [all, setAll] = useState(false);
  const open = timeline.spans.length > 0 && !timeline.spans.at(-1).to;
  const pace = timeline.spans.length < MANY ? 1 : 5000;
  const at = open ? Math.floor(Math.max(second.value, now()) / pace) * pace : 0;
  const spans = useMemo(() => spansOf(timeline.spans, at), [timeline, at]);
  const rows = useMemo(() => rowsOf(spans, steps), [spans, steps]);
  if (spans.length === 0) return html`<p class="faint">No activity yet.</p>`;
  const short = (route.value.query.get('scale') ?? (mostlyWaits(spans) ? 'short' : 'true')) === 'short';
  const on = axis(spans, short);
  const tones = new Set([...rows.flatMap((it) => it.bars.map((one) => one.tone)), ...spans.map((it) => bar(it).tone)]);
  const chosen = route.value.query.get('step');
  const shown = all ? rows : rows.slice(0, SHOWN);
  return html`<div class="fall-head">
      <span class="fall-keys">${KEYS.filter(([tone]) => tones.has(tone)).map(([tone, name]) => html`<span class=${`fall-key ${tone}`}>${name}</span>`)}</span>
      <label class="fall-short"><input type="checkbox" checked=${short} onChange=${() => setQuery({ scale: short ? 'true' : 'short' })} /> Compress waits</label>
    </div>
    <div class="fall">
      <div class="fall-ticks" aria-hidden="true">${on.ticks.map((it) => html`<span class=${it.place > 94 ? 'last' : ''} style=${{ left: `${it.place}%` }}><i>${it.at === 0 ? '0' : span(it.at)}</i></span>`)}</div>
      <ol>${html`<${Whole} spans=${spans} axis=${on} />`}${shown.map((row) => html`<${Row} key=${row.id} row=${row} axis=${on} chosen=${Boolean(row.step) && row.name === chosen} />`)}</ol>
    </div>
    ${rows.length > shown.length && html`<p class="more"><button type="button" onClick=${() => setAll(true)}>Show all ${plural(rows.length, 'row')}</button></p>`}
`;
}
