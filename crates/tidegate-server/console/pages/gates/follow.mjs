// Positions of runs in a lane, computed from the gate's current state and the previous positions. A
// run keeps its position while it stays in the gate, and is shown for a moment while it leaves.

/**
 * @typedef {import('./gate.mjs').Gate} Gate
 * @typedef {{ id: string, where: 'line' | 'in' | 'coming' | 'took' | 'left', place: number, since: number, draining?: boolean }} Token
 *   `coming`: run of an open window or buffer; `took`: run with the claim; `since`: when it was first seen there
 */

/** Time in ms that a run is shown after it has left, and the maximum number of such runs. */
const STAYS = 2600;
const SEEN = 5;

/** @param {Token[]} before @param {Gate} gate @param {number} now @returns {Token[]} */
export function follow(before, gate, now) {
  const was = new Map(before.map((token) => [token.id, token]));
  /** @type {Map<string, Token>} */
  const next = new Map();
  /** @param {string} id @param {Token['where']} where @param {number} place */
  function put(id, where, place, draining = false) {
    const old = was.get(id);
    next.set(id, { id, where, place, draining, since: old?.where === where ? old.since : now });
  }
  const holders = gate.holders ?? [];
  const taken = new Set(holders.map((id) => was.get(id)).filter((it) => it?.where === 'in').map((it) => /** @type {Token} */ (it).place));
  for (const id of holders) {
    const old = was.get(id);
    let place = old?.where === 'in' ? old.place : 0;
    if (old?.where !== 'in') {
      while (taken.has(place)) place += 1;
      taken.add(place);
    }
    put(id, 'in', place, gate.draining?.includes(id));
  }
  const line = gate.line?.first ?? [];
  line.filter((id) => !next.has(id)).forEach((id, place) => put(id, 'line', place));
  if (gate.pending !== undefined && gate.pending > 0 && gate.runId) put(gate.runId, 'coming', 0);
  if (gate.eventId && gate.runId) put(gate.runId, 'took', 0);

  // Runs with better ranks push others off the end of the listed part of the queue: those are still
  // queued.
  const ahead = line.filter((id) => !was.has(id)).length;
  const more = (gate.line?.count ?? 0) > line.length;
  const left = before.filter((token) => {
    if (next.has(token.id)) return false;
    if (token.where === 'left') return now - token.since < STAYS;
    return !(token.where === 'line' && more && token.place + ahead >= line.length);
  });
  const fresh = left.filter((token) => token.where !== 'left').concat(left.filter((token) => token.where === 'left')).slice(0, SEEN);
  fresh.forEach((token, place) => put(token.id, 'left', place));
  return [...next.values()];
}
