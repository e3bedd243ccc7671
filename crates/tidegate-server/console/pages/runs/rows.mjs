// Rows of a run's waterfall: one for each gate, one for the time in which it was ready, and one for
// each step with its attempts and waits.
import { keyNote, span } from '../../lib/format.mjs';

/**
 * @typedef {import('./axis.mjs').Span} Span
 * @typedef {{ from: number, to: number, tone: string, title: string, open?: boolean }} Bar
 * @typedef {{ id: string, name: string, what: string, bars: Bar[], ms: number, step?: any, bad?: boolean }} Row
 */

/** @type {Record<string, string>} */
const TONES = { queued: 'wait', ready: 'still', running: 'go', waiting: 'idle', paused: 'rest', several: 'several', unknown: 'several' };
/** @type {Record<string, string>} */
const ON = { time: 'sleeping', retry: 'waiting for its next attempt', event: 'waiting for an event', signal: 'waiting for a signal', child: 'waiting for its child' };

/** Kinds of spans in which steps are or may have been executed. */
const DRIVEN = ['running', 'several', 'unknown'];
/** Kinds of steps that only wait. */
const WAITS = ['sleep', 'event', 'signal', 'invoke'];

/** Spans with times as numbers; an open span ends now. @param {any[]} told @param {number} now @returns {Span[]} */
export const spansOf = (told, now) =>
  told.map((it) => ({ ...it, from: Date.parse(it.from), to: it.to ? Date.parse(it.to) : Math.max(now, Date.parse(it.from)), open: !it.to }));

/** @param {Span} it */
export function said(it) {
  const lasted = `${span(it.to - it.from)}${it.open ? ' so far' : ''}`;
  if (it.kind === 'queued') return `queued at ${it.control}${keyNote(it.key)}: ${lasted}`;
  if (it.kind === 'ready') return `ready, waiting for a worker: ${lasted}`;
  if (it.kind === 'waiting') return `${it.step ? `step ${it.step} ` : ''}${ON[it.on ?? ''] ?? 'waiting'}: ${lasted}`;
  if (it.kind === 'several') return `too many spans to record individually: ${lasted}`;
  if (it.kind === 'unknown') return `not recorded: ${lasted}`;
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
    const [what, name] = it.kind === 'queued' ? [it.control ?? 'queue', it.key ?? ''] : it.kind === 'ready' ? ['ready', 'waiting for a worker'] : ['paused', 'by operator'];
    const id = `${what}\n${name}`;
    const row = rows.get(id) ?? { id, what, name, bars: [], ms: 0 };
    row.bars.push(bar(it));
    rows.set(id, row);
  }
  return [...rows.values()];
}

/**
 * Rows of steps. The start of a step is not recorded: its bar starts at the last recorded time
 * within the span in which the run was executing.
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
  // `marks[i]`: where the next step of span `i` starts, which is the end of the last step recorded
  // in it.
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
