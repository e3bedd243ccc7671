import { useEffect, useSignal } from '../../lib/html.mjs';
import { get, path } from '../../lib/api.mjs';

/** Runs by id, each asked for once: what is used of them does not change once they have started.
 *  @param {string[]} ids a few: ten holders and the first ten of a line */
export function useRuns(ids) {
  const known = useSignal(/** @type {Record<string, any>} */ ({}));
  const asked = ids.join();
  useEffect(() => {
    const stop = new AbortController();
    for (const id of ids.filter((it) => !known.peek()[it])) {
      get(path`/runs/${id}`, {}, stop.signal).then((run) => (known.value = { ...known.peek(), [id]: run }), () => {});
    }
    return () => stop.abort();
  }, [asked]);
  return known.value;
}
