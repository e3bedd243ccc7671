// At which gate runs were sent to the line: the list itself does not say.
import { get } from '../../lib/api.mjs';
import { useEffect, useRef, useSignal } from '../../lib/html.mjs';

/** Not more often than this. */
const OFTEN = 1500;
/** Beyond this the oldest are forgotten. */
const KEPT = 5000;

/**
 * By run, from the receipts of those that were queued: one question for all of them.
 *
 * @param {any[]} rows @param {string | undefined} workflow
 */
export function useGates(rows, workflow) {
  const known = useSignal(/** @type {Map<string, { control: string, key: string } | null>} `null`: asked for, and without a receipt */ (new Map()));
  const now = useRef({ rows, at: 0, busy: false, gone: false });
  now.current.rows = rows;
  useEffect(() => () => { now.current.gone = true; }, []);
  const open = rows.some((it) => it.state === 'queued' && !known.value.has(it.id));
  useEffect(() => {
    const it = now.current;
    if (!open || it.busy) return;
    it.busy = true;
    // It is not put off by runs that keep coming: what is missing then is asked for next.
    setTimeout(async () => {
      if (it.gone) return;
      it.at = Date.now();
      const all = new Map(known.peek());
      // Who is ready has no receipt: it waits for a worker, and is not asked for twice.
      for (const run of it.rows) if (run.state === 'queued' && !all.has(run.id)) all.set(run.id, null);
      try {
        const { receipts } = await get('/receipts', { outcome: 'queued', workflow, limit: 100 });
        for (const one of receipts) if (one.runId && one.control) all.set(one.runId, { control: one.control, key: one.key });
      } catch {
        // A column stays empty; the run's own page says it exactly.
      }
      it.busy = false;
      if (!it.gone) known.value = all.size > KEPT ? new Map([...all].slice(-KEPT)) : all;
    }, Math.max(0, it.at + OFTEN - Date.now()));
  }, [open, known.value, workflow]);
  return known.value;
}
