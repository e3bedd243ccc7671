// Numbers of runs of a workflow, in total and by version.
import { versions } from '../../lib/live.mjs';

/** @typedef {import('../../lib/live.mjs').OfVersion} OfVersion */

/** Number of live runs of a version. @param {OfVersion} it */
export const live = (it) => it.inFlight + it.queued + it.waiting + it.paused;

/** Numbers by workflow: its versions, newest first. @returns {Map<string, OfVersion[]>} */
export function byWorkflow() {
  /** @type {Map<string, OfVersion[]>} */
  const all = new Map();
  for (const it of versions.value.values()) {
    const name = `${it.app}/${it.workflow}`;
    const known = all.get(name);
    if (known) known.push(it);
    else all.set(name, [it]);
  }
  for (const list of all.values()) list.sort((a, b) => b.version - a.version);
  return all;
}

/** @param {OfVersion[]} list */
export function sum(list) {
  const all = { inFlight: 0, queued: 0, waiting: 0, paused: 0, stranded: 0, atLeast: false };
  for (const it of list) {
    for (const name of /** @type {const} */ (['inFlight', 'queued', 'waiting', 'paused'])) all[name] += it[name];
    all.stranded += it.stranded ?? 0;
    all.atLeast ||= it.atLeast ?? false;
  }
  return all;
}
