import { useEffect, useRef } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';
import { versions } from '../../lib/live.mjs';

/** All workflow definitions, fetched again when versions appear or disappear, not when numbers change. */
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
