// A gate: the state of one control for one key.
import { shortId } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';

/**
 * @typedef {{ control: string, app: string, workflow: string, pool?: string, slot?: string, key: string, letsIn?: string, limit?: number,
 *   perMs?: number, burst?: number, inside?: number, units?: number, holders?: string[], draining?: string[], tokens?: number, nextAt?: string,
 *   line?: { count: number, first: string[], since?: string, atLeast?: boolean },
 *   pending?: number, until?: string, eventId?: string, runId?: string, closed?: { until: string, by: string, at: string },
 *   fairBy?: string, fromData?: { eventId: string, limits: number[] }, overrides?: import('./override.mjs').Override[], overrideTarget?: Record<string, any>,
 *   adaptive?: { limit: number, min: number, max: number, successes: number, loweredAt?: string } }} Gate
 */

/** Unique id of a gate. @param {Gate} gate */
export const idOf = ({ control, app, workflow, pool, slot, key }) => JSON.stringify(pool ? [control, app, workflow, slot ?? '', key, pool] : [control, app, workflow, slot ?? '', key]);

/** @param {string} id as made by `idOf` @returns {{ control: string, app: string, workflow: string, slot: string, key: string, pool?: string } | null} */
export function fromId(id) {
  try {
    const [control, app, workflow, slot, key, pool] = JSON.parse(id);
    return typeof key === 'string' ? { control, app, workflow, slot, key, pool } : null;
  } catch {
    return null;
  }
}

/** Kind of a gate. @param {Gate} gate @returns {'meter' | 'fold' | 'claim' | 'slots'} */
export function kindOf(gate) {
  if (gate.pending !== undefined) return 'fold';
  if (gate.tokens !== undefined || gate.perMs !== undefined) return 'meter';
  return gate.eventId !== undefined || gate.control === 'idempotency' || gate.control === 'dedupeId' ? 'claim' : 'slots';
}

/** Whether a gate has runs, queued runs, events or used tokens. @param {Gate} gate */
export const isBusy = (gate) =>
  (gate.inside ?? 0) > 0 || (gate.line?.count ?? 0) > 0 || (gate.pending ?? 0) > 0 || (gate.burst !== undefined && (gate.tokens ?? 0) < gate.burst);

/** Units that are taken: the costs of the runs inside, or their number. @param {Gate} gate */
export const takenOf = (gate) => gate.units ?? gate.inside ?? 0;

/** Whether a gate has no room left. @param {Gate} gate */
export const isFull = (gate) => gate.limit !== undefined && takenOf(gate) >= gate.limit;

/** Override that pauses or closes a gate. @param {Gate} gate */
export const closingOf = (gate) => gate.overrides?.find((it) => it.closedUntil) ?? gate.overrides?.find((it) => it.paused);

/** Why nothing enters a gate, in one word. @param {Gate} gate @returns {'paused' | 'closed' | null} */
export function shutOf(gate) {
  const closing = gate.letsIn === 'closed' ? closingOf(gate) : undefined;
  if (closing) return closing.closedUntil ? 'closed' : 'paused';
  return gate.closed || gate.letsIn === 'closed' ? 'closed' : null;
}

/** Last characters of a run's number, in which neighbouring runs differ. @param {string} id */
export const tag = (id) => shortId(id).replace(/^.*_/, '').slice(-6);

/** Path that the key is read from; empty for a gate without one. A slot may have a prefix (`path:`) and a version (`@2`). @param {{ control: string, slot?: string }} gate */
export const fieldOf = ({ control, slot = '' }) => (control === 'onOverlap' ? '' : slot.replace(/^(path|function):/, '').replace(/@\d+$/, ''));

/** Workflow of a gate, or its pool. @param {{ workflow: string, pool?: string }} gate */
export const ownerOf = ({ workflow, pool }) => (pool ? `pool ${pool}` : workflow);

/** Key as text: `accountId = 7`. @param {{ control: string, pool?: string, slot?: string, key: string }} gate */
export function keyWords(gate) {
  if (gate.key === '(whole)') return gate.pool ? 'whole pool' : 'whole workflow';
  if (gate.key === '(missing)') return 'key missing';
  const field = fieldOf(gate);
  return field ? `${field} = ${gate.key}` : gate.key;
}

/** Address of the gate's workflow; of the flow, for a policy; of the gates, for a pool. @param {{ control: string, app: string, workflow: string, pool?: string }} gate */
export const workflowAddress = ({ control, app, workflow, pool }) =>
  pool ? to('gates', { pool }) : control === 'policy'
    ? to('flows', { open: workflow, app: app === 'default' ? undefined : app })
    : to('workflows', { open: workflow, app: app === 'default' ? undefined : app });

/** Address that opens a gate. @param {Gate} gate @param {Record<string, unknown>} [query] */
export const gateAddress = (gate, query = {}) => to('gates', { ...query, open: idOf(gate) });
