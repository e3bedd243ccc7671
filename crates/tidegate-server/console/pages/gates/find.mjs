import { useEffect, useRef, useState } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';

/** @typedef {import('./gate.mjs').Gate} Gate */

/** Maximum number of pages searched for one gate. */
const HOPS = 20;

/**
 * Finds one gate anywhere in the list; refreshes the page on which it was found.
 *
 * @param {Record<string, unknown> | null} query `null` searches nothing
 * @param {(gate: Gate) => boolean} fits
 */
export function useFound(query, fits) {
  const asked = JSON.stringify(query);
  const [at, setAt] = useState({ asked, cursor: /** @type {string | undefined} */ (undefined), hops: 0 });
  const here = at.asked === asked ? at : { asked, cursor: undefined, hops: 0 };
  const fetched = useFetched(query && '/gates', { ...query, limit: 100, cursor: here.cursor });
  const found = /** @type {Gate | undefined} */ (fetched.value?.gates.find(fits));
  const once = useRef(false);
  if (found) once.current = true;
  const next = fetched.value?.next;
  useEffect(() => {
    if (query && !fetched.loading && !once.current && next && here.hops < HOPS) setAt({ asked, cursor: next, hops: here.hops + 1 });
  }, [fetched.value, fetched.loading]);
  const looking = !found && !once.current && (fetched.loading || (Boolean(next) && here.hops < HOPS));
  return { gate: found, looking, error: fetched.error };
}
