// One server, one application, and the recorded wire between them.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { SDKS, startApp, startServer } from './processes.mjs';
import { newStore } from './stores.mjs';
import { Wire } from './wire.mjs';

/** Timeout in ms of everything that a test waits for. It asserts nothing about speed. */
export const PATIENCE = Number(process.env.TIDEGATE_SDK_PATIENCE ?? 30_000);

/** Waits until `look` returns something, and returns that. */
export async function until(look, what, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < end, `timed out waiting for ${typeof what === 'function' ? what() : what}`);
    await new Promise((done) => { setTimeout(done, 25); });
  }
}

export const unique = (name) => `${name}-${randomUUID().slice(0, 8)}`;

export class World {
  /** @param {string} sdk name in SDKS  @param {{app?: object, server?: object, sync?: boolean}} [options] */
  static async start(sdk, options = {}) {
    const world = new World();
    world.sdk = { name: sdk, ...SDKS[sdk] };
    world.options = options;
    try {
      await world.#begin(options);
    } catch (error) {
      await world.stop();
      throw error;
    }
    return world;
  }

  async #begin(options) {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), `tidegate-sdk-${this.sdk.name}-`));
    this.toServer = await Wire.start();
    this.toApp = await Wire.start();
    this.store = await newStore(this.folder, options.store);
    await this.startServer();
    await this.startApp();
    if (options.sync !== false) await this.sync();
  }

  async startServer() {
    this.server = await this.anotherServer();
    this.toServer.target = this.server.url;
  }

  /** Starts a further server on the same store. Its settings may depend on the addresses. */
  anotherServer() {
    const { server } = this.options;
    return startServer(this.folder, this.store.url, typeof server === 'function' ? server(this) : server);
  }

  async startApp(env = {}) {
    this.app = await startApp(this.folder, this.sdk.name, { ...this.appEnv(), ...this.options.app, ...env });
    this.toApp.target = this.app.url;
  }

  /** Environment that tells the SDK where its server is; with keys it is in production. */
  appEnv() {
    const { keys } = this.options;
    if (!keys) return { INNGEST_DEV: this.toServer.url };
    return { INNGEST_DEV: '0', INNGEST_BASE_URL: this.toServer.url, INNGEST_SIGNING_KEY: keys.signing, INNGEST_EVENT_KEY: keys.event };
  }

  get appUrl() {
    return `${this.toApp.url}/api/inngest`;
  }

  /** Asks the application to register itself, as `curl -X PUT` does. */
  async sync() {
    const answer = await fetch(this.appUrl, { method: 'PUT' });
    // The SDK of Go answers with an empty body.
    const body = JSON.parse(await answer.text() || '{}');
    assert.equal(answer.status, 200, `sync: ${JSON.stringify(body)} ${this.lastRegistration()}`);
    return body;
  }

  lastRegistration() {
    const last = this.toServer.entries.filter((entry) => entry.path.startsWith('/fn/register')).at(-1);
    return last ? `${last.status} ${last.answerText}` : 'no registration was posted';
  }

  /** Request to the server's own API. */
  async api(method, where, body) {
    const answer = await fetch(this.server.url + where, { method, headers: { 'content-type': 'application/json', ...this.options.headers }, body: body && JSON.stringify(body) });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${where}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  /** Posts events as an SDK does; returns their ids. */
  async send(...events) {
    const answer = await fetch(`${this.server.url}/e/${this.options.keys?.event ?? 'test'}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(events) });
    const body = await answer.json();
    assert.equal(answer.status, 200, JSON.stringify(body));
    return body.ids;
  }

  /** Sends the event that triggers a function; returns its id. */
  async start(fn, data = {}, event = {}) {
    const [id] = await this.send({ name: `t/${fn}`, data, ...event });
    return id;
  }

  #lines = [];
  #read = 0;

  /** All lines of the application's log that match. Reads what was added since the last call. */
  log(match = {}) {
    const file = fs.openSync(this.app.log, 'r');
    const added = Buffer.alloc(fs.fstatSync(file).size - this.#read);
    fs.readSync(file, added, 0, added.length, this.#read);
    fs.closeSync(file);
    // The end of a line that is just being written is read with the next call.
    const whole = added.lastIndexOf('\n') + 1;
    this.#read += whole;
    for (const line of added.subarray(0, whole).toString().split('\n')) if (line) this.#lines.push(JSON.parse(line));
    return this.#lines.filter((line) => Object.entries(match).every(([key, value]) => line[key] === value));
  }

  /** The runs that an event has started, of one function if it is given. */
  async runs(event, fn) {
    const { runs } = await this.api('GET', `/runs?event=${encodeURIComponent(event)}&limit=100`);
    return runs.filter((run) => !fn || run.workflow === fn);
  }

  run(id) {
    return this.api('GET', `/runs/${id}`);
  }

  /** Waits until an event has started a run of the function. */
  begun(event, fn) {
    return until(async () => (await this.runs(event, fn))[0], `a run of ${fn} for ${event}`);
  }

  /** Waits until the run of a function that an event has started ends. */
  async ended(event, fn, patience) {
    let run;
    return until(async () => {
      [run] = await this.runs(event, fn);
      return ['completed', 'failed', 'cancelled'].includes(run?.state) && run;
    }, () => `the end of the run of ${fn} for ${event}: ${JSON.stringify(run)}`, patience);
  }

  /** Sends the event of a function, waits for the end of the run, and expects its output. */
  async completes(fn, data, { event, patience } = {}) {
    const run = await this.ended(await this.start(fn, data, event), fn, patience);
    assert.equal(run.state, 'completed', `${fn}: ${JSON.stringify(run)}`);
    return run;
  }

  async fails(fn, data, { patience } = {}) {
    const run = await this.ended(await this.start(fn, data), fn, patience);
    assert.equal(run.state, 'failed', `${fn}: ${JSON.stringify(run)}`);
    return run;
  }

  /** Calls of the server to the application for a run, in order. */
  calls(run) {
    return this.toApp.entries.filter((entry) => entry.method === 'POST' && entry.body?.ctx?.run_id === run);
  }

  /** Checkpoints that the application has posted for a run. */
  checkpoints(run) {
    return this.toServer.entries.filter((entry) => entry.path.startsWith(`/v1/checkpoint/${run}/`));
  }

  /** Executions of a step in the log: how often it began. */
  executions(run, step) {
    return this.log({ what: 'begin', run, step }).length;
  }

  /** Sets knobs of the application, see `/rig` in the applications. */
  async rig(knobs) {
    const answer = await fetch(`${this.app.url}/rig`, { method: 'POST', body: JSON.stringify(knobs) });
    return answer.json();
  }

  #releasing = Promise.resolve();

  /** Lets the steps that are held under these keys go on. One request at a time: each has all keys. */
  release(...keys) {
    this.releasedKeys = [...(this.releasedKeys ?? []), ...keys];
    this.#releasing = this.#releasing.then(() => this.rig({ released: this.releasedKeys }));
    return this.#releasing;
  }

  /** Lets the application send events by its client. */
  async appSends(events) {
    const answer = await fetch(`${this.app.url}/send`, { method: 'POST', body: JSON.stringify(events) });
    return { status: answer.status, ...(await answer.json()) };
  }

  /** Forgets what was recorded on the wire. */
  forget() {
    this.toServer.entries.length = 0;
    this.toApp.entries.length = 0;
  }

  /** Kills the server as a crash would, and starts it again on the same store. */
  async crash() {
    await this.server.stop('SIGKILL');
    await this.startServer();
  }

  async stop() {
    await this.app?.stop('SIGKILL');
    await this.server?.stop();
    await this.toServer?.stop();
    await this.toApp?.stop();
    await this.store?.remove();
    if (process.env.TIDEGATE_SDK_KEEP) console.log(`kept: ${this.folder}`);
    else fs.rmSync(this.folder, { recursive: true });
  }
}
