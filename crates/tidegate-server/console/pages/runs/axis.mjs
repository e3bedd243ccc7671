// Time axis of a run: position of a time, and ticks.

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000].map((s) => s * 1000)];
/** Approximate number of ticks. */
const LINES = 6;

/**
 * @typedef {{ kind: string, from: number, to: number, control?: string, key?: string, on?: string, step?: string, open?: boolean }} Span
 * @typedef {{ place: (at: number) => number, ticks: { at: number, place: number }[] }} Axis
 */

/** Linear axis. @param {number} from @param {number} to @returns {Axis} */
function plain(from, to) {
  const whole = Math.max(1, to - from);
  const place = (/** @type {number} */ at) => (100 * (at - from)) / whole;
  const step = STEPS.find((it) => whole / it <= LINES) ?? whole / LINES;
  const ticks = [];
  for (let at = 0; at <= whole; at += step) ticks.push({ at, place: (100 * at) / whole });
  return { place, ticks };
}

/** Index of the span that contains a time, or of the last span. @param {Span[]} spans @param {number} at */
function holding(spans, at) {
  let [low, high] = [0, spans.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].to > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Axis with compressed waits, so that short work stays visible. @param {Span[]} spans @returns {Axis} */
function shortened(spans) {
  const worked = spans.filter((it) => it.kind === 'running').reduce((sum, it) => sum + it.to - it.from, 0);
  const most = Math.max(1, worked / 4);
  const weights = spans.map((it) => (it.kind === 'running' ? it.to - it.from : Math.min(it.to - it.from, most)));
  const whole = Math.max(1e-9, weights.reduce((a, b) => a + b, 0));
  /** @type {number[]} */
  const begins = [];
  weights.reduce((sum, it, i) => ((begins[i] = sum), sum + it), 0);
  /** @param {number} at */
  function place(at) {
    const i = holding(spans, at);
    const { from, to } = spans[i];
    return (100 * (begins[i] + weights[i] * Math.min(1, Math.max(0, (at - from) / Math.max(1, to - from))))) / whole;
  }
  const ticks = [];
  for (const [i, { from }] of spans.entries()) {
    const at = (100 * begins[i]) / whole;
    if (ticks.length === 0 || at - ticks[ticks.length - 1].place > 9) ticks.push({ at: from - spans[0].from, place: at });
  }
  return { place, ticks };
}

/** @param {Span[]} spans @param {boolean} short */
export const axis = (spans, short) => (short ? shortened(spans) : plain(spans[0].from, spans[spans.length - 1].to));

/** Whether a run waits so long that its work is hard to see. @param {Span[]} spans */
export function mostlyWaits(spans) {
  const whole = spans[spans.length - 1].to - spans[0].from;
  const worked = spans.filter((it) => it.kind === 'running').reduce((sum, it) => sum + it.to - it.from, 0);
  return worked > 0 && worked < whole / 8;
}
