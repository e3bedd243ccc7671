// Verdicts of the listed events. Receipts are read page by page, for all events at once.
import { get } from '../../lib/api.mjs';
import { useEffect, useRef, useSignal } from '../../lib/html.mjs';

const OFTEN = 1200;
/** Retry delay after a failure, in ms. */
const LATER = 5000;
/** Above this number of events the receipts are dropped and read again. */
const KEPT = 5000;

/**
 * @typedef {{ of: Map<string, any[]>, low: string, high: string, next: string | null }} Known
 *   receipts by event, complete from event `low` to event `high`; `next`: cursor of older receipts
 */

/** @param {any[]} rows events, newest first @returns {(id: string) => any[] | null} `null`: not loaded yet */
export function useVerdicts(rows) {
  const known = useSignal(/** @type {Known} */ ({ of: new Map(), low: '', high: '', next: null }));
  const asked = useSignal(0);
  const failed = useSignal(0);
  const top = rows[0]?.id ?? '';
  const newest = useRef(top);
  newest.current = top;
  const bottom = rows.at(-1)?.id ?? '';
  const { high, low, next } = known.value;
  const newer = top > high;
  const older = !newer && bottom !== '' && bottom < low && next !== null;
  useEffect(() => {
    if (!newer && !older) return;
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      asked.value = Date.now();
      const upTo = newest.current;
      try {
        const page = await get('/receipts', { limit: 100, cursor: newer ? undefined : (known.peek().next ?? undefined) }, stop.signal);
        known.value = joined(known.peek(), page, newer ? upTo : '');
        failed.value = 0;
      } catch {
        // The verdict column stays empty until the retry. The details of an event load its verdicts
        // separately.
        if (!stop.signal.aborted) failed.value += 1;
      }
    }, Math.max(0, asked.peek() + (failed.peek() > 0 ? LATER : OFTEN) - Date.now()));
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
    // `top` is deliberately not a dependency: with a steady stream of new events it would restart
    // the timer forever.
  }, [newer, older, high, next, failed.value]);
  return (id) => (id <= high && id >= low ? (known.value.of.get(id) ?? []) : null);
}

/** @param {Known} before @param {{ receipts: any[], next: string | null }} page @param {string} top newest event, if the newest receipts were requested */
function joined(before, { receipts, next }, top) {
  const last = receipts.at(-1)?.eventId ?? '';
  const lowest = next === null ? '' : last;
  const apart = top !== '' && (before.high === '' || lowest > before.high || before.of.size > KEPT);
  const of = new Map(apart ? [] : before.of);
  for (const it of receipts) {
    const all = of.get(it.eventId) ?? [];
    if (!all.some((/** @type {any} */ one) => one.workflow === it.workflow && one.control === it.control)) of.set(it.eventId, [...all, it]);
  }
  const first = receipts[0]?.eventId ?? '';
  if (top === '') return { of, low: lowest, high: before.high, next };
  const high = first > top ? first : top;
  return apart ? { of, low: lowest, high, next } : { of, low: before.low, high, next: before.next };
}
