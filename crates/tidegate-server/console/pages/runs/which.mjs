// Filters of the list of runs: converts the page's address to an API query.
import { now } from '../../lib/clock.mjs';

export const STATES = ['running', 'queued', 'waiting', 'paused', 'completed', 'failed', 'cancelled'];

/** States of live runs: only these can be cancelled, paused or resumed. */
export const ALIVE = ['running', 'queued', 'waiting', 'paused'];

/** @type {[string, string, number][]} */
export const SINCE = [
  ['5m', 'last 5 minutes', 5 * 60_000],
  ['1h', 'last hour', 3_600_000],
  ['24h', 'last 24 hours', 86_400_000],
  ['7d', 'last 7 days', 7 * 86_400_000],
];

const FILTERS = ['app', 'workflow', 'version', 'state', 'key', 'event', 'text', 'from', 'to'];

/** @typedef {Record<string, string>} Which */

/** API query of the page's filters. @param {URLSearchParams} query @returns {Which} */
export function which(query) {
  /** @type {Which} */
  const asked = {};
  for (const name of FILTERS) {
    const value = query.get(name)?.trim();
    if (value) asked[name] = value;
  }
  const span = SINCE.find(([name]) => name === query.get('since'))?.[2];
  if (span) asked.from = new Date(now() - span).toISOString();
  return asked;
}

/** Whether any filter is set. @param {URLSearchParams} query */
export const narrowed = (query) => [...FILTERS, 'since'].some((name) => query.get(name));

/** Whether a run matches the filters, except key and event, which its row does not have. @param {any} run @param {Which} asked */
export function fits(run, asked) {
  const at = Date.parse(run.queuedAt);
  return (
    (!asked.app || run.app === asked.app) &&
    (!asked.workflow || run.workflow === asked.workflow) &&
    (!asked.version || String(run.version) === asked.version) &&
    (!asked.state || run.state === asked.state) &&
    (!asked.text || run.workflow.includes(asked.text)) &&
    (!asked.from || at >= Date.parse(asked.from)) &&
    (!asked.to || at <= Date.parse(asked.to))
  );
}

/** Whether `fits` can decide all filters. @param {Which} asked */
export const tellable = (asked) => !asked.key && !asked.event;
