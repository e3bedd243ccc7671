// The rows of a run's waterfall: gates, the wait for a worker, and steps with their attempts and waits.
import { span } from '../../lib/format.mjs';

/**
 * @typedef {import('./axis.mjs').Span} Span
 * @typedef {{ from: number, to: number, tone: string, title: string, open?: boolean }} Bar
 * @typedef {{ id: string, name: string, what: string, bars: Bar[], ms: number, step?: any, bad?: boolean }} Row
 */

/** @type {Record<string, string>} */
const TONES = { queued: 'wait', ready: 'still', running: 'go', waiting: 'idle', paused: 'rest', several: 'several', unknown: 'several' };
/** @type {Record<string, string>} */
const ON = { time: 'sleeps', retry: 'waits for its next attempt', event: 'waits for an event', signal: 'waits for a signal', child: 'waits for its child' };

/** Spans in which steps are done, or may have been. */
const DRIVEN = ['running', 'several', 'unknown'];
/** Kinds of steps whose time is waiting. */
const WAITS = ['sleep', 'event', 'signal', 'invoke'];

/** As numbers, the last one ending now. @param {any[]} told @param {number} now @returns {Span[]} */
export const spansOf = (told, now) =>
  told.map((it) => ({ ...it, from: Date.parse(it.from), to: it.to ? Date.parse(it.to) : Math.max(now, Date.parse(it.from)), open: !it.to }));

/** @param {Span} it */
export function said(it) {
  const lasted = `${span(it.to - it.from)}${it.open ? ' so far' : ''}`;
  if (it.kind === 'queued') return `in line at ${it.control} of ${it.key}: ${lasted}`;
  if (it.kind === 'ready') return `ready, waits for a worker: ${lasted}`;
  if (it.kind === 'waiting') return `${it.step ? `step ${it.step} ` : ''}${ON[it.on ?? ''] ?? 'waits'}: ${lasted}`;
  if (it.kind === 'several') return `more than is remembered one by one: ${lasted}`;
  if (it.kind === 'unknown') return `not on record: ${lasted}`;
  return `${it.kind}: ${lasted}`;
}

/** @param {Span} it @returns {Bar} */
export const bar = (it) => ({ from: it.from, to: it.to, tone: TONES[it.kind] ?? 'still', title: said(it), open: it.open });

/** @param {Bar[]} bars */
const total = (bars) => bars.reduce((sum, it) => sum + it.to - it.from, 0);

/** @param {Span[]} spans @returns {Row[]} */
function beforeWork(spans) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  for (const it of spans) {
    if (it.kind !== 'queued' && it.kind !== 'ready' && it.kind !== 'paused') continue;
    const [what, name] = it.kind === 'queued' ? [it.control ?? 'line', it.key ?? ''] : it.kind === 'ready' ? ['ready', 'waits for a worker'] : ['paused', 'by hand'];
    const id = `${what}\n${name}`;
    const row = rows.get(id) ?? { id, what, name, bars: [], ms: 0 };
    row.bars.push(bar(it));
    rows.set(id, row);
  }
  return [...rows.values()];
}

/**
 * When a step began is on no record. It is drawn from the last thing that was, within the time in
 * which the run was driven.
 *
 * @param {Span[]} spans @param {any[]} steps as recorded, oldest first @returns {Row[]}
 */
function ofSteps(spans, steps) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  const row = (/** @type {string} */ id) => {
    const found = rows.get(id) ?? { id: `step\n${id}`, what: 'step', name: id, bars: [], ms: 0 };
    rows.set(id, found);
    return found;
  };
  for (const it of spans) if (it.kind === 'waiting' && it.step) row(it.step).bars.push(bar(it));
  const driven = spans.map((it, i) => ({ ...it, next: spans[i + 1] })).filter((it) => DRIVEN.includes(it.kind));
  // Up to where each of them is explained by what was recorded in it.
  const marks = driven.map((it) => it.from);
  let at = 0;
  for (const step of steps.map((it) => ({ ...it, when: Date.parse(it.at) })).sort((a, b) => a.when - b.when)) {
    while (at < driven.length && driven[at].to < step.when) at += 1;
    if (at === driven.length || driven[at].from > step.when || (WAITS.includes(step.kind) && rows.has(step.id))) continue;
    const from = marks[at];
    marks[at] = step.when;
    row(step.id).bars.push({ from, to: step.when, tone: step.error ? 'bad' : 'good', title: `${step.kind === 'run' ? 'done' : step.kind} after ${span(step.when - from)}${step.error ? `, failed: ${step.error.code}` : ''}` });
  }
  driven.forEach((it, i) => {
    const { next } = it;
    if (next?.on === 'retry' && next.step && next.from > marks[i]) row(next.step).bars.push({ from: marks[i], to: next.from, tone: 'bad', title: `attempt failed after ${span(next.from - marks[i])}` });
  });
  for (const step of steps) Object.assign(row(step.id), { what: step.kind, step, bad: Boolean(step.error) });
  return [...rows.values()];
}

/** @param {Span[]} spans @param {any[]} steps @returns {Row[]} */
export function rowsOf(spans, steps) {
  const rows = [...beforeWork(spans), ...ofSteps(spans, steps)];
  for (const it of rows) it.ms = total(it.bars);
  const begin = (/** @type {Row} */ it) => it.bars.reduce((least, one) => Math.min(least, one.from), Infinity);
  const begins = new Map(rows.map((it) => [it, begin(it)]));
  return rows.sort((a, b) => /** @type {number} */ (begins.get(a)) - /** @type {number} */ (begins.get(b)));
}
