import { useEffect, useRef } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';
import { versions } from '../../lib/live.mjs';

/** All that is defined, asked for again when versions come or go: numbers do not change it. */
export function useWorkflows() {
  const fetched = useFetched('/workflows', {}, { live: false });
  const known = [...versions.value.keys()].join();
  const before = useRef(known);
  useEffect(() => {
    if (before.current !== known) fetched.again();
    before.current = known;
  }, [known]);
  return fetched;
}
