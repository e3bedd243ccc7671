import { useEffect, useSignal } from '../../lib/html.mjs';
import { get, path } from '../../lib/api.mjs';

/** Runs by id. Each is fetched when it appears and when it gets inside: in between, the fields used
 *  here do not change. @param {string[]} holders @param {string[]} line at most ten of each */
export function useRuns(holders, line) {
  const known = useSignal(/** @type {Record<string, any>} */ ({}));
  const asked = [...holders, '', ...line].join();
  useEffect(() => {
    const stop = new AbortController();
    known.value = Object.fromEntries(Object.entries(known.peek()).filter(([id]) => holders.includes(id) || line.includes(id)));
    const wanted = [...holders.filter((id) => !known.peek()[id]?.inside), ...line.filter((id) => !known.peek()[id])];
    for (const id of wanted) {
      get(path`/runs/${id}`, {}, stop.signal).then((run) => (known.value = { ...known.peek(), [id]: { ...run, inside: holders.includes(id) } }), () => {});
    }
    return () => stop.abort();
  }, [asked]);
  return known.value;
}
