// Live state shared by all pages: one connection, run counts that follow the server within a
// second, and a tick that triggers refreshes.
import { batch, effect, signal } from '@preact/signals';
import { correct } from './clock.mjs';
import { follow } from './sse.mjs';
import { epoch, workspace } from './api.mjs';

/**
 * @typedef {{ inFlight: number, queued: number, ready?: number, waiting: number, paused: number, stranded?: number, atLeast?: boolean }} Counts
 * @typedef {Counts & { app: string, workflow: string, version: number }} OfVersion
 * @typedef {{ kind: string, busy: number, of: number, with: { workflow: string, runs: number }[], elsewhere?: number }} Workers
 * @typedef {{ at: string, started: number, ended: number, waitP50Ms: number | null, waitP95Ms: number | null }} Point
 *   rates per second on this server, in the interval that ends at `at`
 */

/** Number of chart points: ten minutes, one point per two seconds. */
const POINTS = 300;
/** Delay in ms after which messages are applied without an animation frame. */
const LATE = 300;

/** Whether the page is connected to the server. @type {import('@preact/signals').Signal<boolean | null>} `null` before the first attempt */
export const connected = signal(null);
/** Counter that grows with every change: an effect that reads it runs again. */
export const tick = signal(0);
export const counts = signal(/** @type {Counts} */ ({ inFlight: 0, queued: 0, waiting: 0, paused: 0 }));
/** By `app/workflow/version`. */
export const versions = signal(/** @type {Map<string, OfVersion>} */ (new Map()));
export const folds = signal({ debounce: 0, batch: 0 });
/** Number of blocked reaction positions. */
export const blocked = signal(0);
/** Gates with the longest queues. */
export const busiest = signal(/** @type {any[]} */ ([]));
/** Workers of this server, by kind. */
export const workers = signal(/** @type {Workers[]} */ ([]));
export const points = signal(/** @type {Point[]} */ ([]));

/** Messages since the last frame; they are applied as one change. */
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

/** @param {any} news changes since the last message */
function take(news) {
  if (news.at) correct(news.at);
  if (news.whole) {
    // A full snapshot has no entry for a version without runs, so old entries are cleared.
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
  // A hidden tab gets no animation frames, but its numbers must be right when it is shown again.
  timer ??= setTimeout(apply, LATE);
}

let stop = () => {};
// Reconnects when the API key or the workspace changes.
effect(() => {
  void epoch.value;
  void workspace.value;
  stop();
  waiting = [];
  stop = follow('/live', { on: heard, connected: (yes) => (connected.value = yes) });
});
