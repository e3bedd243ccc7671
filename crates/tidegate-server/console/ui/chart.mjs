import { html, useState } from '../lib/html.mjs';
import { count, moment } from '../lib/format.mjs';

const W = 600;
const H = 120;
const FEWEST = 60;

/**
 * @typedef {{ name: string, tone: string, of: (point: any) => number }} Series
 */

/**
 * Time series chart, newest point at the right.
 *
 * @param {{ title: string, about?: string, points: { at: string }[], series: Series[], text?: (n: number) => string }} props
 */
export function Chart({ title, about, points, series, text = count }) {
  // A chart with few points has empty space at the left, so that they are not stretched over the
  // whole width.
  const span = Math.max(FEWEST, points.length);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const highest = Math.max(1e-9, ...points.flatMap((point) => series.map((it) => it.of(point))));
  const top = nice(highest);
  const x = (/** @type {number} */ i) => W - ((points.length - 1 - i) * W) / Math.max(1, span - 1);
  const y = (/** @type {number} */ n) => H - (n / top) * H;
  const path = (/** @type {Series} */ it) => points.map((point, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(it.of(point)).toFixed(1)}`).join('');
  /** @param {PointerEvent} event */
  function hover(event) {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    const i = Math.round(points.length - 1 - ((box.right - event.clientX) / box.width) * (span - 1));
    setAt(i >= 0 && i < points.length ? i : null);
  }
  const shown = at !== null && at < points.length ? points[at] : points.at(-1);
  return html`<figure class="chart">
    <figcaption><b title=${about}>${title}</b>
      <span class="legend">${series.map((it) => html`<span class=${`key ${it.tone}`}>${it.name} <b class="num">${shown ? text(it.of(shown)) : '–'}</b></span>`)}</span>
      ${at !== null && shown && html`<span class="faint chart-at">${moment(shown.at)}</span>`}</figcaption>
    <div class="plot">
      <svg viewBox=${`0 0 ${W} ${H}`} preserveAspectRatio="none" role="img" aria-label=${`${title}, last 10 minutes`}
        onPointerMove=${hover} onPointerLeave=${() => setAt(null)}>
        ${[0.25, 0.5, 0.75].map((part) => html`<line class="grid" x1="0" x2=${W} y1=${H * part} y2=${H * part} />`)}
        ${points.length > 1 && series.map((it, i) => html`
          ${i === 0 && html`<path class=${`area ${it.tone}`} d=${`${path(it)}L${W} ${H}L${x(0)} ${H}Z`} />`}
          <path class=${`line ${it.tone}`} d=${path(it)} />`)}
        ${at !== null && html`<line class="cursor" x1=${x(at)} x2=${x(at)} y1="0" y2=${H} />`}
      </svg>
      <span class="axis top">${text(top)}</span><span class="axis bottom">${text(0)}</span>
      ${points.length < 2 && html`<span class="plot-empty">collecting data …</span>`}
    </div>
  </figure>`;
}

/** The next round number. @param {number} n */
function nice(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  const step = [1, 2, 2.5, 5, 10].find((it) => it * power >= n) ?? 10;
  return step * power;
}

/** Sparkline without axes. @param {{ values: number[], tone?: string, label: string }} props */
export function Spark({ values, tone = 'go', label }) {
  const top = Math.max(1, ...values);
  const step = 100 / Math.max(1, values.length - 1);
  const d = values.map((n, i) => `${i ? 'L' : 'M'}${(i * step).toFixed(1)} ${(20 - (n / top) * 19).toFixed(1)}`).join('');
  return html`<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label=${label}><path class=${`line ${tone}`} d=${d} /></svg>`;
}
