// Sends a burst and counts the verdicts.
import { path, post } from '../../lib/api.mjs';
import { verdictsOf } from './verdict.mjs';

/** @typedef {import('./plan.mjs').Item} Item */
/** @typedef {import('./plan.mjs').Draft} Draft */
/** @typedef {import('./verdict.mjs').Verdict} Verdict */
/** @typedef {{ total: number, sent: number, since: number, ms: number, over: boolean, counts: Map<string, number>,
 *   keys: Map<string, Map<string, number>>, last: (Verdict & { of: string, n: number })[], problem: string | null }} Tally */

/** Events per request, concurrent requests to actions, and verdicts kept. */
const CHUNK = 50;
const ABREAST = 6;
const KEPT = 60;
/** Shortest time between two renders while answers arrive, in ms. */
const SHOWN = 100;

/** @param {number} total @returns {Tally} */
export const begun = (total) => ({ total, sent: 0, since: performance.now(), ms: 0, over: false, counts: new Map(), keys: new Map(), last: [], problem: null });

/** @param {Map<string, number>} map @param {string} name */
const add = (map, name) => map.set(name, (map.get(name) ?? 0) + 1);

/** @param {Tally} tally @param {Item} item @param {Verdict[]} verdicts */
function count(tally, item, verdicts) {
  tally.sent += 1;
  for (const verdict of verdicts) {
    add(tally.counts, verdict.outcome);
    const key = item.key || verdict.key || '';
    if (!tally.keys.has(key)) tally.keys.set(key, new Map());
    add(/** @type {Map<string, number>} */ (tally.keys.get(key)), verdict.outcome);
    tally.last.unshift({ ...verdict, of: item.key, n: tally.sent });
  }
  tally.last.length = Math.min(tally.last.length, KEPT);
}

/** Counts the verdicts of an answer. @param {Tally} tally @param {Item[]} items @param {any} told */
export function countAll(tally, items, told) {
  items.forEach((item, i) => count(tally, item, verdictsOf(told.events[i])));
}

/** Answer to a request, as a verdict. @param {Draft} draft @param {() => Promise<any>} ask @returns {Promise<Verdict>} */
async function asVerdict(draft, ask) {
  const workflow = `${draft.flow}/${draft.action}`;
  try {
    const told = await ask();
    if (told.deduped) return { workflow, outcome: 'deduped', firstRunId: told.requestId };
    const outcome = told.coalesced ? 'coalesced' : told.state === 'running' ? 'started' : told.state;
    return { workflow, outcome, runId: told.requestId, control: outcome === 'coalesced' || outcome === 'queued' ? 'policy' : undefined };
  } catch (error) {
    const { code, told, message } = /** @type {any} */ (error);
    if (code === 'busy') return { workflow, outcome: 'skipped', control: 'policy', holder: told.requestId };
    if (code === 'rate_limited') return { workflow, outcome: 'dropped', control: 'rateLimit', retryAt: told.retryAt };
    return { workflow, outcome: 'rejected', detail: message };
  }
}

/**
 * @param {Draft} draft @param {Item[]} items @param {number} rate per second; 0 is as fast as possible
 * @param {(tally: Tally) => void} show @param {AbortSignal} stop
 */
export async function sendAll(draft, items, rate, show, stop) {
  const tally = begun(items.length);
  show({ ...tally });
  let next = 0;
  /** Number of items that may have been sent by now. */
  const due = () => (rate > 0 ? Math.min(items.length, Math.floor(((performance.now() - tally.since) * rate) / 1000) + 1) : items.length);
  let shown = 0;
  const told = () => {
    tally.ms = performance.now() - tally.since;
    if (tally.ms - shown < SHOWN && !tally.over) return;
    shown = tally.ms;
    show({ ...tally });
  };
  async function worker() {
    while (next < items.length && !stop.aborted && !tally.problem) {
      const most = Math.min(due() - next, draft.kind === 'event' ? CHUNK : 1);
      if (most <= 0) {
        await new Promise((done) => setTimeout(done, Math.min(200, Math.max(20, 1000 / rate))));
        continue;
      }
      const part = items.slice(next, next + most);
      next += most;
      try {
        if (draft.kind === 'event') countAll(tally, part, await post('/events', part.map((it) => it.body)));
        else count(tally, part[0], [await asVerdict(draft, () => post(path`/flows/${draft.flow}/actions/${draft.action}`, part[0].body))]);
      } catch (error) {
        tally.problem = /** @type {Error} */ (error).message;
      }
      told();
    }
  }
  await Promise.all(Array.from({ length: draft.kind === 'event' ? 1 : ABREAST }, worker));
  tally.over = true;
  told();
}
