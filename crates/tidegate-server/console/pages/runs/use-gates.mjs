// At which gate runs were sent to the line: the list itself does not say.
import { get } from '../../lib/api.mjs';
import { useEffect, useSignal } from '../../lib/html.mjs';

/** Not more often than this. */
const OFTEN = 2000;
/** Beyond this the oldest are forgotten. */
const KEPT = 5000;

/**
 * By run, from the receipts of those that were queued: one question for all of them.
 *
 * @param {any[]} rows @param {string | undefined} workflow
 */
export function useGates(rows, workflow) {
  const known = useSignal(/** @type {Map<string, { control: string, key: string }>} */ (new Map()));
  const asked = useSignal({ at: 0, for: '' });
  const open = rows.find((it) => it.state === 'queued' && !known.value.has(it.id));
  useEffect(() => {
    // Who is ready has no receipt: its wait is for a worker, and it is not asked for twice.
    if (!open || asked.peek().for === open.id) return;
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      asked.value = { at: Date.now(), for: open.id };
      try {
        const { receipts } = await get('/receipts', { outcome: 'queued', workflow, limit: 100 }, stop.signal);
        const all = new Map(known.peek());
        for (const it of receipts) if (it.runId && it.control) all.set(it.runId, { control: it.control, key: it.key });
        known.value = all.size > KEPT ? new Map([...all].slice(-KEPT)) : all;
      } catch {
        // A column stays empty; the run's own page says it exactly.
      }
    }, Math.max(0, asked.peek().at + OFTEN - Date.now()));
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [open?.id, workflow]);
  return known.value;
}
