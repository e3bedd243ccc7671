import { useRef } from '../../lib/html.mjs';
import { idOf } from './gate.mjs';

/** @typedef {import('./gate.mjs').Gate} Gate */

/** How long the lane of a gate that is gone stays. */
const LINGERS = 8000;
const LONG_AGO = 1;

/** A gate that nothing is remembered of any more. @param {Gate} gate @returns {Gate} */
const emptied = (gate) => ({
  ...gate, holders: [], draining: [], runId: undefined, until: undefined,
  inside: gate.inside === undefined ? undefined : 0,
  pending: gate.pending === undefined ? undefined : 0,
  line: gate.line && { count: 0, first: [] },
  tokens: gate.burst,
});

/**
 * Gates in their order, those that have just gone still in their places: a window that has fired is
 * seen to let its run go, and comes back with the next event without anything jumping.
 *
 * @param {Gate[]} gates @param {string} asked what the list was asked for: another list keeps nothing
 */
export function useLinger(gates, asked) {
  const kept = useRef({ asked, from: /** @type {Gate[] | null} */ (null), list: /** @type {{ gate: Gate, gone: number }[]} */ ([]) });
  // Until the answer is there, the gates are still those of the list before: they are not kept.
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
