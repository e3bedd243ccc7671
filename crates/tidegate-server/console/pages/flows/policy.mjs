// The policy of an action, in words.
import { span } from '../../lib/format.mjs';

/** @typedef {import('../../lib/workflows.mjs').Workflow} Workflow */

/** @type {Record<string, (rule: any) => string>} */
const WORDS = {
  allow: () => 'runs beside the others and takes no place',
  queue: (rule) => `waits its turn, first come, first served${rule.maxWaitMs ? `, for ${span(rule.maxWaitMs)} at the most` : ''}`,
  reject: () => 'is refused, and told who is inside',
  restart: () => 'replaces the one inside',
  debounce: (rule) => `joins the others; one run when it was quiet for ${span(rule.periodMs)}${rule.maxWaitMs ? `, after ${span(rule.maxWaitMs)} at the latest` : ''}`,
};

/** @param {Workflow} action @returns {{ policy: string, key: string, words: string }} */
export function policyOf(action) {
  const rules = [action.flowControl?.concurrency ?? []].flat().map((rule) => (typeof rule === 'string' ? { policy: rule } : rule));
  const rule = rules.find((it) => it.policy) ?? { policy: 'allow' };
  const key = rule.policy === 'allow' ? '' : Array.isArray(rule.key) ? rule.key.join('.') : (rule.key ?? 'session');
  return { policy: rule.policy, key, words: WORDS[rule.policy]?.(rule) ?? '' };
}

/** What else shapes it. @param {Workflow} action @returns {string[]} */
export function othersOf(action) {
  const { concurrency, ...others } = action.flowControl ?? {};
  const limits = [concurrency ?? []].flat().some((rule) => rule?.limit);
  return [...(limits ? ['concurrency'] : []), ...Object.keys(others)];
}

/** The kind of a key as people read it. @param {string | undefined} slot */
export const kindOf = (slot = '') => slot.replace(/^path:/, '');
