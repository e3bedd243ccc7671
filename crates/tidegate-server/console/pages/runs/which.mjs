// Which runs are meant: the address of the page as a question to the API.
import { now } from '../../lib/clock.mjs';

export const STATES = ['running', 'queued', 'waiting', 'paused', 'completed', 'failed', 'cancelled'];

/** States that a run leaves again: only those can be cancelled, paused or resumed. */
export const ALIVE = ['running', 'queued', 'waiting', 'paused'];

/** @type {[string, string, number][]} */
export const SINCE = [
  ['5m', 'the last 5 minutes', 5 * 60_000],
  ['1h', 'the last hour', 3_600_000],
  ['24h', 'the last 24 hours', 86_400_000],
  ['7d', 'the last 7 days', 7 * 86_400_000],
];

const FILTERS = ['app', 'workflow', 'version', 'state', 'key', 'event', 'text', 'from', 'to'];

/** @typedef {Record<string, string>} Which */

/** What to ask for. @param {URLSearchParams} query @returns {Which} */
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

/** Whether anything is left out. @param {URLSearchParams} query */
export const narrowed = (query) => [...FILTERS, 'since'].some((name) => query.get(name));

/** Whether a run is among them, as far as its row says: of keys and events it does not. @param {any} run @param {Which} asked */
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

/** Whether `fits` can tell. @param {Which} asked */
export const tellable = (asked) => !asked.key && !asked.event;
