// Describes the policy of an action in words.
import { span } from '../../lib/format.mjs';

/** @typedef {import('../../lib/workflows.mjs').Workflow} Workflow */

/** @type {Record<string, (rule: any) => string>} */
const WORDS = {
  allow: () => 'runs concurrently and takes no slot',
  queue: (rule) => `is queued, first come, first served${rule.maxWaitMs ? `, for at most ${span(rule.maxWaitMs)}` : ''}`,
  reject: () => 'is rejected, with the id of the one inside',
  restart: () => 'replaces the one inside',
  debounce: (rule) => `is merged with the others into one run after ${span(rule.periodMs)} without requests${rule.maxWaitMs ? `, at most ${span(rule.maxWaitMs)} after the first` : ''}`,
};

/** @param {Workflow} action @returns {{ policy: string, key: string, words: string }} */
export function policyOf(action) {
  const rules = [action.flowControl?.concurrency ?? []].flat().map((rule) => (typeof rule === 'string' ? { policy: rule } : rule));
  const rule = rules.find((it) => it.policy) ?? { policy: 'allow' };
  const key = rule.policy === 'allow' ? '' : Array.isArray(rule.key) ? rule.key.join('.') : (rule.key ?? 'session');
  return { policy: rule.policy, key, words: WORDS[rule.policy]?.(rule) ?? '' };
}

/** Other controls of an action. @param {Workflow} action @returns {string[]} */
export function othersOf(action) {
  const { concurrency, ...others } = action.flowControl ?? {};
  const limits = [concurrency ?? []].flat().some((rule) => rule?.limit);
  return [...(limits ? ['concurrency'] : []), ...Object.keys(others)];
}

/** Field that a key is read from. @param {string | undefined} slot */
export const kindOf = (slot = '') => slot.replace(/^path:/, '');
