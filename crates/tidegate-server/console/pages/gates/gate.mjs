// A gate as the pages know it: what one control remembers for one key.
import { shortId } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';

/**
 * @typedef {{ control: string, app: string, workflow: string, slot?: string, key: string, letsIn?: string, limit?: number,
 *   perMs?: number, burst?: number, inside?: number, holders?: string[], draining?: string[], tokens?: number, nextAt?: string,
 *   line?: { count: number, first: string[], since?: string, atLeast?: boolean },
 *   pending?: number, until?: string, eventId?: string, runId?: string }} Gate
 */

/** Every control that has gates, in the order in which they act. */
export const CONTROLS = ['rateLimit', 'debounce', 'batch', 'handoff', 'singleton', 'onOverlap', 'policy', 'throttle', 'concurrency', 'idempotency', 'dedupeId'];

/** What tells a gate from all others. @param {Gate} gate */
export const idOf = ({ control, app, workflow, slot, key }) => JSON.stringify([control, app, workflow, slot ?? '', key]);

/** @param {string} id as made by `idOf` @returns {{ control: string, app: string, workflow: string, slot: string, key: string } | null} */
export function fromId(id) {
  try {
    const [control, app, workflow, slot, key] = JSON.parse(id);
    return typeof key === 'string' ? { control, app, workflow, slot, key } : null;
  } catch {
    return null;
  }
}

/** Which way it works. @param {Gate} gate @returns {'meter' | 'fold' | 'claim' | 'slots'} */
export function kindOf(gate) {
  if (gate.pending !== undefined) return 'fold';
  if (gate.tokens !== undefined || gate.perMs !== undefined) return 'meter';
  return gate.eventId !== undefined || gate.control === 'idempotency' || gate.control === 'dedupeId' ? 'claim' : 'slots';
}

/** Whether somebody is inside or waits. @param {Gate} gate */
export const isBusy = (gate) =>
  (gate.inside ?? 0) > 0 || (gate.line?.count ?? 0) > 0 || (gate.pending ?? 0) > 0 || (gate.burst !== undefined && (gate.tokens ?? 0) < gate.burst);

/** The last letters of a run's number: in them, those that stand beside each other differ. @param {string} id */
export const tag = (id) => shortId(id).replace(/^.*_/, '').slice(-6);

/** What people call the key. @param {{ key: string }} gate */
export const keyWords = ({ key }) => (key === '(whole)' ? 'whole' : key === '(missing)' ? 'no key' : key);

/** The page of its workflow; a policy belongs to the flow. @param {{ control: string, app: string, workflow: string }} gate */
export const workflowAddress = ({ control, app, workflow }) =>
  control === 'policy'
    ? to('flows', { open: workflow, app: app === 'default' ? undefined : app })
    : to('workflows', { open: workflow, app: app === 'default' ? undefined : app });

/** The address that opens a gate. @param {Gate} gate @param {Record<string, unknown>} [query] */
export const gateAddress = (gate, query = {}) => to('gates', { ...query, open: idOf(gate) });
