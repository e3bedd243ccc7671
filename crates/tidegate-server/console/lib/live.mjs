// What all pages share of the present: one connection, numbers that follow the server within a
// second, and a tick that says "look again".
import { batch, effect, signal } from '@preact/signals';
import { correct } from './clock.mjs';
import { follow } from './sse.mjs';
import { epoch, workspace } from './api.mjs';

/**
 * @typedef {{ inFlight: number, queued: number, ready?: number, waiting: number, paused: number, stranded?: number, atLeast?: boolean }} Counts
 * @typedef {Counts & { app: string, workflow: string, version: number }} OfVersion
 * @typedef {{ kind: string, busy: number, of: number, with: { workflow: string, runs: number }[], elsewhere?: number }} Workers
 * @typedef {{ at: string, started: number, ended: number, waitP50Ms: number | null, waitP95Ms: number | null }} Point
 *   what happened on this server, a second, in the step of time that ends then
 */

/** How many points the charts keep: ten minutes of two seconds each. */
const POINTS = 300;
/** When news are taken without a frame, in ms. */
const LATE = 300;

/** Whether the server is heard. @type {import('@preact/signals').Signal<boolean | null>} `null` before the first time */
export const connected = signal(null);
/** Grows whenever something has changed: read it to look again. */
export const tick = signal(0);
export const counts = signal(/** @type {Counts} */ ({ inFlight: 0, queued: 0, waiting: 0, paused: 0 }));
/** By `app/workflow/version`. */
export const versions = signal(/** @type {Map<string, OfVersion>} */ (new Map()));
export const folds = signal({ debounce: 0, batch: 0 });
/** How many places of reactions are blocked. */
export const blocked = signal(0);
/** The gates with the longest lines. */
export const busiest = signal(/** @type {any[]} */ ([]));
/** The workers of this server, by kind. */
export const workers = signal(/** @type {Workers[]} */ ([]));
export const points = signal(/** @type {Point[]} */ ([]));

/** Several messages between two frames are one change of the page. */
let waiting = /** @type {any[]} */ ([]);

let frame = 0;
/** @type {number | undefined} */
let timer;

function apply() {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = 0;
  timer = undefined;
  const told = waiting;
  waiting = [];
  batch(() => {
    for (const news of told) take(news);
    tick.value += 1;
  });
}

/** @param {any} news what has changed */
function take(news) {
  if (news.at) correct(news.at);
  if (news.whole) {
    // What is empty now is not named.
    versions.value = new Map();
    points.value = [];
  }
  if (news.stats) counts.value = news.stats;
  if (news.folds) folds.value = news.folds;
  if (news.blocked !== undefined) blocked.value = news.blocked;
  if (news.gates) busiest.value = news.gates;
  if (news.workers) workers.value = news.workers;
  if (news.points) points.value = points.value.concat(news.points).slice(-POINTS);
  if (news.workflows || news.gone) {
    const all = new Map(versions.value);
    const name = (/** @type {OfVersion} */ it) => `${it.app}/${it.workflow}/${it.version}`;
    for (const of of news.gone ?? []) all.delete(name(of));
    for (const of of news.workflows ?? []) all.set(name(of), of);
    versions.value = all;
  }
}

/** @param {string} _event @param {any} news */
function heard(_event, news) {
  if (news.whole) waiting = [];
  waiting.push(news);
  frame ||= requestAnimationFrame(apply);
  // A page that is or becomes hidden draws no frame, and its numbers must be right when it is looked at again.
  timer ??= setTimeout(apply, LATE);
}

let stop = () => {};
// Again after another key or workspace.
effect(() => {
  void epoch.value;
  void workspace.value;
  stop();
  waiting = [];
  stop = follow('/live', { on: heard, connected: (yes) => (connected.value = yes) });
});
