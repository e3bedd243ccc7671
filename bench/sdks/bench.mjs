// Throughput of functions on an SDK: Tidegate beside Restate, in turns on one machine.
//
//   node bench.mjs [--runs 2000] [--rounds 3] [--only one,ten,three] [--apps 1]
//
// scripts/bench-sdks starts it with TIDEGATE_BINARY, TIDEGATE_BENCH_POSTGRES (the URL) and
// TIDEGATE_BENCH_POSTGRES_PID. Each row is a function; runs are started by one request each over 64
// connections, and the time ends when the application has returned from the last one. An application
// is `--apps` processes behind one port. Processor time is that of /proc, of each part by itself.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';

const { values: flags } = parseArgs({ options: { runs: { type: 'string', default: '2000' }, rounds: { type: 'string', default: '3' }, only: { type: 'string', default: 'one,ten,three' }, apps: { type: 'string', default: '1' } } });
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

/** Environment of all processes. It is small, because Inngest's SDK copies it several times in each call. */
const { PATH, HOME } = process.env;

/** Starts a process; its log is a file of the folder. */
function start(command, env, name) {
  const log = fs.openSync(path.join(folder, `${name}.log`), 'a');
  const child = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', log], env: { PATH, HOME, ...env }, cwd: import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname) });
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

/** Processor time in µs of a process and its descendants, also of those that have ended. */
function processorTime(root) {
  const processes = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      // The second field, the name in brackets, may contain blanks.
      const [, parent, ...fields] = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
      // User and system time of the process and of its children that have ended, in ticks of 10 ms.
      return [{ pid, parent, ticks: fields.slice(9, 13).reduce((sum, of) => sum + Number(of), 0) }];
    } catch {
      return []; // The process has ended.
    }
  });
  const ids = new Set([String(root)]);
  for (let before = 0; before < ids.size;) {
    before = ids.size;
    for (const { pid, parent } of processes) if (ids.has(parent)) ids.add(pid);
  }
  return processes.filter(({ pid }) => ids.has(pid)).reduce((sum, { ticks }) => sum + ticks, 0) * 10_000;
}

/** Starts an application; `count` asks it how many functions have ended. */
async function startApp(file, env, name) {
  const port = await freePort();
  const child = start([NODE, file], { ...env, PORT: String(port), APPS: flags.apps }, name);
  await says(child, /ready/);
  child.output = '';
  return {
    port,
    pid: child.pid,
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

async function tidegate(kind, store, database) {
  const server = start([process.env.TIDEGATE_BINARY, 'serve', '--store', store, '--listen', '127.0.0.1:0'], {}, kind);
  const [, url] = await says(server, /listening on (http:\/\/[0-9.:]+)/);
  const app = await startApp('on-inngest.mjs', { INNGEST_DEV: url, NODE_ENV: 'production' }, `${kind}-app`);
  const synced = await fetch(`http://127.0.0.1:${app.port}/api/inngest`, { method: 'PUT' });
  if (!synced.ok) throw new Error(`sync: ${await synced.text()}`);
  const parts = { server: server.pid, ...(database && { database }), app: app.pid };
  return { name: kind, app, parts, begin: (fn, n) => post(`${url}/e/bench`, { name: `bench/${fn}`, data: { n } }) };
}

async function restate() {
  const [ingress, admin, fabric] = [await freePort(), await freePort(), await freePort()];
  const require = createRequire(import.meta.url);
  const binary = require.resolve('@restatedev/restate-server-linux-x64/bin/restate-server');
  const server = start([binary, '--no-logo', '--listen-mode', 'tcp', '--base-dir', path.join(folder, 'restate')], {
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
  return { name: 'Restate', app, parts: { server: server.pid, app: app.pid }, begin: (fn, n) => post(`http://127.0.0.1:${ingress}/bench/${fn}/send`, { n }) };
}

/** Runs per second of one function on one engine, and the processor time of each part per run. */
async function measure(engine, fn, runs) {
  const before = await engine.app.count();
  const parts = Object.entries({ ...engine.parts, sender: process.pid });
  // The sender is this process, of which all others are descendants.
  const time = (part, pid) => {
    const { user, system } = process.cpuUsage();
    return part === 'sender' ? user + system : processorTime(pid);
  };
  const times = parts.map(([part, pid]) => time(part, pid));
  const begin = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    while (next < runs) {
      next += 1;
      await engine.begin(fn, next);
    }
  }));
  // The counting takes a part of the measured time that stays small also on a busy machine.
  const pause = () => Math.max(5, (performance.now() - begin) / 50);
  while (await engine.app.count() < before + runs) await new Promise((done) => { setTimeout(done, pause()); });
  const rate = runs / ((performance.now() - begin) / 1000);
  const used = parts.map(([part, pid], n) => [part, (time(part, pid) - times[n]) / runs]);
  return { rate, used: Object.fromEntries(used) };
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const spread = (list, digits) => {
  const [middle, least, most] = [median(list), Math.min(...list), Math.max(...list)].map((of) => of.toFixed(digits));
  return `${middle} (${least}–${most})`;
};

try {
  const engines = [await tidegate('Tidegate on SQLite', `sqlite:${folder}/tidegate.db`)];
  const { TIDEGATE_BENCH_POSTGRES: postgres, TIDEGATE_BENCH_POSTGRES_PID: database } = process.env;
  if (postgres) engines.push(await tidegate('Tidegate on PostgreSQL', postgres, database));
  const peer = await restate();
  engines.push(peer);
  const functions = flags.only.split(',');
  for (const engine of engines) for (const fn of functions) await measure(engine, fn, 200);
  const rows = functions.flatMap((fn) => engines.map((engine) => ({ fn, engine, measured: [] })));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { fn, engine, measured } of rows) {
      const one = await measure(engine, fn, RUNS);
      measured.push(one);
      const used = Object.entries(one.used).map(([part, time]) => `${part} ${time.toFixed(0)}`);
      console.error(`round ${round + 1}: ${fn} on ${engine.name}: ${one.rate.toFixed(0)} runs/s; µs a run: ${used.join(', ')}`);
    }
  }
  console.log('| function | engine | runs/s | of Restate | µs a run: server | database | app | sender |\n|---|---|---|---|---|---|---|---|');
  for (const { fn, engine, measured } of rows) {
    const beside = rows.find((row) => row.fn === fn && row.engine === peer).measured;
    const ratios = measured.map(({ rate }, round) => rate / beside[round].rate);
    const used = ['server', 'database', 'app', 'sender'].map((part) => (part in engine.parts || part === 'sender' ? median(measured.map((one) => one.used[part])).toFixed(0) : ''));
    console.log(`| ${fn} | ${engine.name} | ${spread(measured.map(({ rate }) => rate), 0)} | ${spread(ratios, 2)} | ${used.join(' | ')} |`);
  }
} finally {
  for (const child of children.reverse()) child.kill('SIGKILL');
  fs.rmSync(folder, { recursive: true, force: true });
}
process.exit();
