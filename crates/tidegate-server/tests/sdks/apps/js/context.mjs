// What all functions of the application share: the client of the SDK under test, and the log.
import { AsyncLocalStorage } from 'node:async_hooks';
import fs from 'node:fs';

const sdk = await import(process.env.SDK);
const version4 = process.env.SDK === 'inngest4';

export const { NonRetriableError, RetryAfterError, referenceFunction } = sdk;
export const client = new sdk.Inngest({ id: process.env.APP_ID ?? 'acceptance', logger: quiet() });

/** All functions of the application, in the order of their definition. */
export const functions = [];

/** Values that the rig sets while the application runs: `released` has the keys of held steps. */
export const knobs = { released: [], revision: 1 };

/** Number of the call in progress, which the rig's proxy has given it. */
export const callNumber = new AsyncLocalStorage();

const file = fs.openSync(process.env.LOG, 'a');

/** Appends a line to the log in one write, so that `kill -9` loses nothing. */
export function log(line) {
  fs.writeSync(file, `${JSON.stringify({ at: Date.now(), call: callNumber.getStore(), ...line })}\n`);
}

/** Defines a function: SDK 3 takes the triggers as an argument, SDK 4 in the options. */
export function define(id, options, trigger, handler) {
  const triggers = [trigger].flat();
  const logged = (ctx) => {
    log({ what: 'body', fn: id, run: ctx.runId, attempt: ctx.attempt, data: ctx.event.data });
    return handler({ ...ctx, work: worker(id, ctx) });
  };
  functions.push(version4
    ? client.createFunction({ id, ...options, triggers }, logged)
    : client.createFunction({ id, ...supported(options) }, triggers, logged));
}

/** The usual trigger of a function: the event of its name. */
export const on = (id) => ({ event: `t/${id}` });

/** A step whose executions are in the log, with their begin and end. */
function worker(fn, ctx) {
  return (id, body) => ctx.step.run(id, async () => {
    const line = { fn, run: ctx.runId, step: id, attempt: ctx.attempt };
    log({ what: 'begin', ...line });
    try {
      const result = await body();
      log({ what: 'end', ...line });
      return result;
    } catch (error) {
      log({ what: 'fail', ...line, message: error.message });
      throw error;
    }
  });
}

const counts = new Map();

/** Number of earlier calls with this name in this run, in this process. */
export function times(run, name) {
  const key = `${run} ${name}`;
  counts.set(key, (counts.get(key) ?? -1) + 1);
  return counts.get(key);
}

export const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

/** Waits until the rig releases the key; at once if there is none. */
export async function released(key) {
  while (key && !knobs.released.includes(key)) await pause(10);
}

/** Options that only SDK 4 knows are left out. */
function supported({ checkpointing, ...options }) {
  return options;
}

function quiet() {
  const nothing = () => {};
  const error = (...words) => console.error(...words);
  return { debug: nothing, info: nothing, warn: nothing, error };
}
