// Reads workflow definitions for the forms and the list of flows.

/**
 * @typedef {{ app: string, name: string, version?: number, versions?: number[], triggers?: (string | { event?: string, cron?: string })[],
 *   flowControl?: Record<string, any>, schema?: any, description?: string }} Workflow
 */

/** Flow and action of an action's name, `flow/action`. @param {Workflow} it @returns {[flow: string, action: string] | null} */
export function actionOf(it) {
  const at = it.name.indexOf('/');
  return at < 0 ? null : [it.name.slice(0, at), it.name.slice(at + 1)];
}

/** Names of the events that start a workflow: its triggers, or its own name if it has none. @param {Workflow} it @returns {string[]} */
export function eventsOf(it) {
  const names = (it.triggers ?? []).flatMap((trigger) => (typeof trigger === 'string' ? trigger : trigger.event ?? []));
  return (it.triggers ?? []).length === 0 && !actionOf(it) ? [it.name] : names;
}

/** @param {Workflow} it @param {string} name */
export const takes = (it, name) =>
  eventsOf(it).some((trigger) => (trigger.endsWith('*') ? name.startsWith(trigger.slice(0, -1)) : trigger === name));

/** Event names for suggestions. @param {Workflow[]} all */
export const eventNames = (all) => [...new Set(all.flatMap(eventsOf).filter((name) => !name.endsWith('*')))].sort();

/** Key paths of the controls of a workflow, those of `fair` last, without duplicates. @param {Workflow} it @returns {string[]} */
export function keysOf(it) {
  const rules = Object.values(it.flowControl ?? {}).flatMap((control) => [control].flat());
  const found = rules.map((rule) => rule?.key ?? rule?.keyField).concat(rules.map((rule) => rule?.fair?.by));
  const paths = found.flatMap((key) => key?.paths ?? key);
  return [...new Set(paths.filter((key) => typeof key === 'string' && key !== 'none'))];
}

/** Names of the controls of a workflow; the policy of an action by its own name. @param {Workflow} it @returns {string[]} */
export function controlsOf(it) {
  const { concurrency, ...others } = it.flowControl ?? {};
  const names = [concurrency ?? []].flat().map((rule) => (typeof rule === 'string' ? rule : (rule.policy ?? 'concurrency')));
  return [...new Set([...names, ...Object.keys(others)])];
}
