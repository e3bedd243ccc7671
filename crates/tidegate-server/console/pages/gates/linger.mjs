import { useRef } from '../../lib/html.mjs';
import { idOf } from './gate.mjs';

/** @typedef {import('./gate.mjs').Gate} Gate */

/** Time in ms that the lane of a deleted gate stays. */
const LINGERS = 8000;
const LONG_AGO = 1;

/** Idle copy of a deleted gate. @param {Gate} gate @returns {Gate} */
const emptied = (gate) => ({
  ...gate, holders: [], draining: [], runId: undefined, until: undefined,
  inside: gate.inside === undefined ? undefined : 0,
  pending: gate.pending === undefined ? undefined : 0,
  line: gate.line && { count: 0, first: [] },
  tokens: gate.burst,
});

/**
 * Gates in order, with gates that were just deleted still at their positions: a window that fires is
 * shown releasing its run, and comes back with the next event without moving other lanes.
 *
 * @param {Gate[]} gates @param {string} asked filters of the list: a list with other filters keeps nothing
 */
export function useLinger(gates, asked) {
  const kept = useRef({ asked, from: /** @type {Gate[] | null} */ (null), list: /** @type {{ gate: Gate, gone: number }[]} */ ([]) });
  // The filters changed: until the response arrives, `gates` is still the previous list. Its gates
  // must not linger in the new one.
  if (kept.current.asked !== asked) kept.current = { asked, from: gates, list: gates.map((gate) => ({ gate, gone: LONG_AGO })) };
  const { from, list } = kept.current;
  if (from !== gates) {
    const now = Date.now();
    const there = new Set(gates.map(idOf));
    const next = gates.map((gate) => ({ gate, gone: 0 }));
    list.forEach(({ gate, gone }, i) => {
      if (there.has(idOf(gate)) || (gone && now - gone > LINGERS)) return;
      const before = i > 0 ? idOf(list[i - 1].gate) : '';
      const at = next.findIndex((it) => idOf(it.gate) === before) + 1;
      next.splice(at, 0, { gate: gone ? gate : emptied(gate), gone: gone || now });
    });
    kept.current = { asked, from: gates, list: next };
  }
  return kept.current.list.map((it) => it.gate);
}
