import { useEffect, useRef, useState } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';

/** @typedef {import('./gate.mjs').Gate} Gate */

/** How many pages are looked at for one gate. */
const HOPS = 20;

/**
 * One gate, wherever in the list it is: the page it was found on is the one that is kept fresh.
 *
 * @param {Record<string, unknown> | null} query `null` looks for nothing
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
