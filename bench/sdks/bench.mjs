// Throughput of functions on an SDK: Tidegate beside Restate, in turns on one machine.
//
//   node bench.mjs [--runs 2000] [--rounds 3] [--only one,ten,three]
//
// scripts/bench-sdks starts it with TIDEGATE_BINARY and TIDEGATE_TEST_POSTGRES. Each row is a
// function; runs are started by one request each over 64 connections, and the time ends when the
// application has returned from the last one.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';

const { values: flags } = parseArgs({ options: { runs: { type: 'string', default: '2000' }, rounds: { type: 'string', default: '3' }, only: { type: 'string', default: 'one,ten,three' } } });
/** The SDK of Restate needs a newer Node than some machines have; both applications run on this one. */
const NODE = path.resolve('node_modules/.bin/node');
const RUNS = Number(flags.runs);
const ROUNDS = Number(flags.rounds);
const CONNECTIONS = 64;
const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS });
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tidegate-bench-sdks-'));
const children = [];

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  await new Promise((done) => { server.close(done); });
  return port;
}

/** Starts a process; its log is a file of the folder. */
function start(command, env, name) {
  const log = fs.openSync(path.join(folder, `${name}.log`), 'a');
  const child = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', log], env: { ...process.env, ...env }, cwd: import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname) });
  children.push(child);
  child.output = '';
  child.stdout.on('data', (data) => { child.output += data; });
  return child;
}

async function says(child, pattern) {
  for (;;) {
    const match = child.output.match(pattern);
    if (match) return match;
    if (child.exitCode !== null) throw new Error(`the process exited: ${child.output}`);
    await new Promise((done) => { setTimeout(done, 20); });
  }
}

/** Starts an application; `count` asks it how many functions have ended. */
async function startApp(file, env, name) {
  const port = await freePort();
  const child = start([NODE, file], { ...env, PORT: String(port) }, name);
  await says(child, /ready/);
  child.output = '';
  return {
    port,
    async count() {
      child.output = '';
      child.stdin.write('\n');
      return Number((await says(child, /^(\d+)\n/m))[1]);
    },
  };
}

function post(url, body, headers = {}) {
  return new Promise((done, fail) => {
    const text = JSON.stringify(body);
    const request = http.request(url, { method: 'POST', agent, headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers } }, (answer) => {
      let answered = '';
      answer.on('data', (data) => { answered += data; });
      answer.on('end', () => (answer.statusCode < 300 ? done(answered) : fail(new Error(`${url}: ${answer.statusCode} ${answered}`))));
    });
    request.once('error', fail);
    request.end(text);
  });
}

async function tidegate(kind, store) {
  const server = start([process.env.TIDEGATE_BINARY, 'serve', '--store', store, '--listen', '127.0.0.1:0'], {}, kind);
  const [, url] = await says(server, /listening on (http:\/\/[0-9.:]+)/);
  const app = await startApp('on-inngest.mjs', { INNGEST_DEV: url, NODE_ENV: 'production' }, `${kind}-app`);
  const synced = await fetch(`http://127.0.0.1:${app.port}/api/inngest`, { method: 'PUT' });
  if (!synced.ok) throw new Error(`sync: ${await synced.text()}`);
  return { name: kind, app, begin: (fn, n) => post(`${url}/e/bench`, { name: `bench/${fn}`, data: { n } }) };
}

async function restate() {
  const [ingress, admin, fabric] = [await freePort(), await freePort(), await freePort()];
  const require = createRequire(import.meta.url);
  const binary = require.resolve('@restatedev/restate-server-linux-x64/bin/restate-server');
  start([binary, '--no-logo', '--listen-mode', 'tcp', '--base-dir', path.join(folder, 'restate')], {
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_BIND_ADDRESS: `127.0.0.1:${fabric}`,
    RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${fabric}`,
    RESTATE_DISABLE_TELEMETRY: 'true',
    RESTATE_LOG_FILTER: 'warn',
  }, 'restate');
  const app = await startApp('on-restate.mjs', { NODE_ENV: 'production' }, 'restate-app');
  for (let i = 0; ; i += 1) {
    try {
      await post(`http://127.0.0.1:${admin}/deployments`, { uri: `http://127.0.0.1:${app.port}` });
      break;
    } catch (error) {
      if (i > 100) throw error;
      await new Promise((done) => { setTimeout(done, 200); });
    }
  }
  return { name: 'Restate', app, begin: (fn, n) => post(`http://127.0.0.1:${ingress}/bench/${fn}/send`, { n }) };
}

/** Runs per second of one function on one engine. */
async function measure(engine, fn, runs) {
  const before = await engine.app.count();
  const begin = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    while (next < runs) {
      next += 1;
      await engine.begin(fn, next);
    }
  }));
  const started = performance.now();
  while (await engine.app.count() < before + runs) await new Promise((done) => { setTimeout(done, 10); });
  return { rate: runs / ((performance.now() - begin) / 1000), startRate: runs / ((started - begin) / 1000) };
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const shown = (list) => `${Math.round(median(list)).toLocaleString('en')} (${list.map((rate) => Math.round(rate)).join(', ')})`;

try {
  const engines = [await tidegate('Tidegate on SQLite', `sqlite:${folder}/tidegate.db`)];
  if (process.env.TIDEGATE_BENCH_POSTGRES) engines.push(await tidegate('Tidegate on PostgreSQL', process.env.TIDEGATE_BENCH_POSTGRES));
  engines.push(await restate());
  const functions = flags.only.split(',');
  for (const engine of engines) for (const fn of functions) await measure(engine, fn, 200);
  const rates = new Map();
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const fn of functions) {
      for (const engine of engines) {
        const { rate, startRate } = await measure(engine, fn, RUNS);
        const key = `${fn} ${engine.name}`;
        rates.set(key, [...(rates.get(key) ?? []), rate]);
        console.error(`round ${round + 1}: ${fn} on ${engine.name}: ${rate.toFixed(0)} runs/s, started at ${startRate.toFixed(0)}/s`);
      }
    }
  }
  console.log(`| function | ${engines.map(({ name }) => `${name}, runs/s`).join(' | ')} |`);
  console.log(`|---|${engines.map(() => '---|').join('')}`);
  for (const fn of functions) console.log(`| ${fn} | ${engines.map(({ name }) => shown(rates.get(`${fn} ${name}`))).join(' | ')} |`);
} finally {
  for (const child of children.reverse()) child.kill('SIGKILL');
  fs.rmSync(folder, { recursive: true, force: true });
}
process.exit();
