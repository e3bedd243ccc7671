// Test rig: the real binary, a service that it calls, and a browser.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

const BINARY = process.env.TIDEGATE_BINARY ?? assert.fail('TIDEGATE_BINARY names the binary');
const CHROMIUM = process.env.TIDEGATE_CHROMIUM ?? '/usr/bin/chromium';
/** Directory for screenshots. */
export const PICTURES = process.env.TIDEGATE_PICTURES ?? os.tmpdir();

/** Timeout in ms, generous for a busy machine. It asserts nothing about speed. */
export const PATIENCE = 30_000;

/** Service that holds its calls open until `letGo`. */
export async function target() {
  const open = new Set();
  let held = true;
  const server = http.createServer((request, response) => {
    request.resume();
    const end = () => {
      open.delete(end);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');
    };
    if (held) open.add(end);
    else end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/work`,
    /** Answers all held and future calls. */
    letGo() {
      held = false;
      for (const end of [...open]) end();
    },
    close: () => server.close(),
  };
}

/** Starts the binary and waits until it prints its address. @param {string[]} args @param {string} said */
async function start(args, said) {
  const child = spawn(BINARY, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, DISPLAY: '' } });
  let log = '';
  const found = new Promise((done, fail) => {
    const hear = (/** @type {Buffer} */ data) => {
      log += data;
      const url = log.match(new RegExp(`${said}(http://[0-9.:]+)`))?.[1];
      if (url) done(url);
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    child.once('exit', (code) => fail(new Error(`the binary exited with ${code}: ${log}`)));
  });
  const url = /** @type {string} */ (await found);
  return {
    url,
    async stop() {
      child.removeAllListeners('exit');
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

/** Starts a server with its own store. @param {string} file TOML config @param {string} [store] */
export async function serve(file, store) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tidegate-console-'));
  const config = path.join(folder, 'tidegate.toml');
  fs.writeFileSync(config, file);
  const server = await start(['serve', '--config', config, '--listen', '127.0.0.1:0', '--store', store ?? `sqlite:${folder}/it.db`], 'listening on ');
  return {
    ...server,
    async stop() {
      await server.stop();
      fs.rmSync(folder, { recursive: true });
    },
  };
}

/** Starts the demo. */
export const demo = () => start(['demo', '--no-open', '--listen', '127.0.0.1:0'], '');

/** @param {string} url */
export function api(url) {
  /** @param {string} method @param {string} where @param {unknown} [body] */
  async function ask(method, where, body) {
    const response = await fetch(url + where, { method, body: body && JSON.stringify(body), headers: { 'content-type': 'application/json' } });
    const told = await response.json();
    assert.ok(response.ok, `${method} ${where}: ${JSON.stringify(told)}`);
    return told;
  }
  return {
    get: (/** @type {string} */ where) => ask('GET', where),
    post: (/** @type {string} */ where, /** @type {unknown} */ body) => ask('POST', where, body),
  };
}

/** Waits until a condition holds. @param {() => Promise<boolean> | boolean} so @param {string} what */
export async function until(so, what) {
  const end = Date.now() + PATIENCE;
  while (!(await so())) {
    assert.ok(Date.now() < end, `timed out waiting until ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

let browser = /** @type {import('playwright-core').Browser | null} */ (null);

/** Opens a page. The test fails on any console error or warning, and on any request to another host.
 *  Animations end at once: a colour or a width in the middle of a transition is meaningless.
 *  @param {string} url @param {import('playwright-core').BrowserContextOptions} [options] */
export async function look(url, options = {}) {
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options });
  await context.addInitScript(() => localStorage.setItem('tidegate-toured', 'yes'));
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const complaints = /** @type {string[]} */ ([]);
  const fetched = /** @type {{ url: string, bytes: number }[]} */ ([]);
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => complaints.push(error.stack ?? error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) complaints.push(`fetched elsewhere: ${request.url()}`);
  });
  const bodies = /** @type {Promise<any>[]} */ ([]);
  page.on('response', (response) => {
    if (!/\/(console\/.*)?$/.test(new URL(response.url()).pathname)) return;
    const body = response.body().catch(() => Buffer.alloc(0));
    bodies.push(body.then((it) => fetched.push({ url: response.url(), bytes: it.length })));
  });
  return {
    page,
    fetched,
    /** Waits until the bodies of all responses so far are in `fetched`. */
    settled: () => Promise.all(bodies),
    /** @param {string} where as in `/runs?state=queued` */
    async go(where) {
      await page.goto(`${url}/#${where}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.getByText('live', { exact: true }).waitFor({ state: 'attached' });
    },
    /** Waits until all animations have ended, and fails on an endless one. */
    async rest() {
      const endless = await page.evaluate(async () => {
        await document.fonts.ready;
        const animations = document.getAnimations();
        const endless = animations.filter((it) => it.effect?.getComputedTiming().endTime === Infinity);
        if (endless.length === 0) await Promise.allSettled(animations.map((it) => it.finished));
        return endless.map((it) => /** @type {any} */ (it).animationName ?? it.id);
      });
      assert.deepEqual(endless, [], 'animations without an end');
    },
    async close() {
      await context.close();
      assert.deepEqual(complaints, []);
    },
  };
}

export async function closeBrowser() {
  await browser?.close();
}
