// Bulk actions on runs: their filters, preview and texts.
import { get } from '../../lib/api.mjs';
import { plural } from '../../lib/format.mjs';
import { ALIVE } from './which.mjs';

/** @typedef {'cancel' | 'pause' | 'resume'} Action */

/** @type {Record<Action, { does: string, doing: string, done: string }>} */
export const WORDS = {
  cancel: { does: 'Cancel', doing: 'Cancelling', done: 'cancelled' },
  pause: { does: 'Pause', doing: 'Pausing', done: 'paused' },
  resume: { does: 'Resume', doing: 'Resuming', done: 'resumed' },
};

/** Why bulk actions are unavailable with the filters of the page; `null` if they are available. @param {import('./which.mjs').Which} asked */
export function cannot(asked) {
  const names = /** @type {[string, string][]} */ ([['text', 'workflow name'], ['key', 'gate key'], ['event', 'event id'], ['from', 'start time']]);
  const set = names.filter(([name]) => asked[name]).map(([, words]) => words);
  if (set.length > 0) return `Bulk actions support the filters workflow, version, status and end time, not ${set.join(' or ')}. Select rows instead, or remove that filter.`;
  if (asked.state && !ALIVE.includes(asked.state)) return `Runs that have ${asked.state === 'completed' ? 'completed' : `been ${asked.state}`.replace('been failed', 'failed')} cannot be cancelled, paused or resumed.`;
  return null;
}

/** Filter of the bulk request. @param {import('./which.mjs').Which} asked */
export const filterOf = ({ app, workflow, version, state, to }) => ({
  ...(app && { app }),
  ...(workflow && { workflow }),
  ...(version && { version: Number(version) }),
  ...(state && { state }),
  ...(to && { queuedBefore: to }),
});

/** Current number of matching runs. @param {import('./which.mjs').Which} asked @param {Action} action */
export async function preview(asked, action) {
  const stats = await get('/runs/stats');
  const mine = /** @type {any[]} */ (stats.byWorkflow).filter(
    (it) => (!asked.app || it.app === asked.app) && (!asked.workflow || it.workflow === asked.workflow) && (!asked.version || String(it.version) === asked.version),
  );
  const sum = (/** @type {string} */ name) => mine.reduce((all, it) => all + it[name], 0);
  const parts = /** @type {[string, string][]} */ ([['running', 'inFlight'], ['queued', 'queued'], ['waiting', 'waiting'], ['paused', 'paused']])
    .filter(([state]) => (asked.state ? state === asked.state : action === 'resume' ? state === 'paused' : action === 'cancel' || state !== 'paused'))
    .map(([state, name]) => /** @type {[string, number]} */ ([state, sum(name)]));
  const all = parts.reduce((n, [, many]) => n + many, 0);
  const atLeast = mine.some((it) => it.atLeast);
  const of = parts.filter(([, many]) => many > 0).map(([state, many]) => `${many} ${state}`).join(', ');
  return { all, words: `${asked.to ? 'at most ' : atLeast ? 'at least ' : ''}${plural(all, 'run')}${of && parts.length > 1 ? ` (${of})` : ''}` };
}

/** Filters in words. @param {import('./which.mjs').Which} asked */
export function inWords(asked) {
  const parts = [
    asked.state && `that are ${asked.state}`,
    asked.workflow && `of ${asked.workflow}${asked.version ? ` v${asked.version}` : ''}`,
    asked.app && `in app ${asked.app}`,
    asked.to && `queued before ${new Date(asked.to).toLocaleString()}`,
  ].filter(Boolean);
  return parts.length ? `All runs ${parts.join(', ')}` : 'All live runs of the workspace';
}
