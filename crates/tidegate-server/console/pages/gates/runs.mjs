import { useEffect, useSignal } from '../../lib/html.mjs';
import { get, path } from '../../lib/api.mjs';

/** Runs by id, each asked for when it comes and when it has got inside: in between, what is used of
 *  them does not change. @param {string[]} holders @param {string[]} line ten of each at the most */
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
