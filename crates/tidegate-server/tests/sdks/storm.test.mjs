// Kill storms: `kill -9` of the server in the middle of many runs with sleeps, waits, parallel steps
// and children. Each round starts the runs, kills the server at a random moment, starts it again,
// and judges every run and the application's log.
//
// TIDEGATE_SDK_ROUNDS is the number of rounds, TIDEGATE_SDK_RUNS that of runs in each.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite } from './rig/suite.mjs';
import { until } from './rig/world.mjs';

const full = Boolean(process.env.TIDEGATE_TEST_FULL);
const ROUNDS = Number(process.env.TIDEGATE_SDK_ROUNDS ?? (full ? 3 : 1));
const RUNS = Number(process.env.TIDEGATE_SDK_RUNS ?? (full ? 200 : 30));
const PATIENCE = 300_000;
const STEPS = ['first', 'part-1', 'part-2', 'part-3', 'last'];
const RECORDS = STEPS.length + 3; // a sleep, a wait, a child

const id = (step) => createHash('sha1').update(step).digest('hex');
const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

/** Starts the runs of a round, and answers the events that they wait for until all have ended. */
async function begin(w, round) {
  const numbers = Array.from({ length: RUNS }, (_, i) => round * 10_000 + i);
  const ids = [];
  for (let i = 0; i < RUNS; i += 50) ids.push(...await w.send(...numbers.slice(i, i + 50).map((n) => ({ name: 't/storm', data: { n } }))));
  return { runs: new Map(numbers.map((n, i) => [n, { event: ids[i] }])) };
}

/** Sends the answer to each run that has not had one; a killed server may have lost none. */
async function answer(w, { runs }) {
  const open = [...runs].filter(([, run]) => !run.ended).map(([n]) => n);
  for (let i = 0; i < open.length; i += 50) {
    await w.send(...open.slice(i, i + 50).map((n) => ({ name: 't/storm-answer', data: { n, plus: 1 } })));
  }
}

/** Answers until all runs have ended, or until `enough` says that the moment has come. */
async function follow(w, round, enough = () => false) {
  let last = 0;
  const open = () => [...round.runs.values()].filter(({ ended }) => !ended);
  await until(async () => {
    if (Date.now() - last > 2000) {
      await answer(w, round);
      last = Date.now();
    }
    for (const run of open()) {
      const [now] = await w.runs(run.event, 'storm');
      if (['completed', 'failed', 'cancelled'].includes(now?.state)) run.ended = now;
      if (enough()) return true;
    }
    return open().length === 0;
  }, () => `the end of ${open().length} runs`, PATIENCE);
}

/** Judges the runs of a round, and the executions of their steps, from outside. */
async function judge(w, { runs }) {
  const begins = group(w.log({ what: 'begin' }));
  const calls = group(w.toApp.entries.filter(({ body }) => body?.ctx).map((entry) => ({ run: entry.body.ctx.run_id, ...entry })));
  let repeated = 0;
  for (const [n, { ended }] of runs) {
    assert.equal(ended.state, 'completed', JSON.stringify(ended));
    assert.equal(ended.output, 5 * n + 7, `run ${ended.id}`);
    const { steps } = await w.api('GET', `/runs/${ended.id}/steps`);
    assert.equal(new Set(steps.map((it) => it.id)).size, RECORDS, JSON.stringify(steps));
    assert.equal(steps.length, RECORDS);
    for (const step of STEPS) {
      // No call executes a step that it, or an earlier call, has remembered. A call from before the
      // kill may be in the application for longer than the server that has made it.
      const remembered = calls.get(ended.id).find(({ body }) => id(step) in body.steps)?.number ?? Infinity;
      const executed = begins.get(ended.id).filter((line) => line.step === step);
      assert.ok(executed.length > 0 && executed.every(({ call }) => call < remembered), `${step} of ${ended.id} was executed by the calls ${executed.map(({ call }) => call)}, although call ${remembered} has its record`);
      repeated += executed.length - 1;
    }
  }
  return repeated;
}

function group(lines) {
  const groups = new Map();
  for (const line of lines) groups.set(line.run, [...(groups.get(line.run) ?? []), line]);
  return groups;
}

async function storm(w, kill) {
  let repeated = 0;
  for (let i = 0; i < ROUNDS; i += 1) {
    const before = w.log({ what: 'end' }).length;
    const round = await begin(w, i + 1);
    const share = Math.random();
    const enough = before + Math.floor(share * RUNS * STEPS.length * 0.8);
    await follow(w, round, () => w.log({ what: 'end' }).length >= enough);
    await pause(Math.random() * 300);
    await kill(i);
    await follow(w, round);
    repeated += await judge(w, round);
    assert.equal((await w.api('GET', '/doctor')).healthy, true);
    console.log(`storm ${w.sdk.name}: round ${i + 1} of ${ROUNDS}, killed after ${Math.floor(share * 80)} % of ${RUNS} runs, ${repeated} executions repeated so far`);
    w.forget();
  }
}

suite({}, (S) => {
  S.alone('B3', 'kill -9 in the middle of many runs: every step is recorded once, every run ends right', (w) => storm(w, () => w.crash()));

  S.alone('B4', 'the same with two servers on one PostgreSQL, checkpoints answered by the other one', async (w) => {
    const servers = [w.server, await w.anotherServer()];
    let turn = 0;
    const next = () => ({ target: servers[(turn += 1) % 2].url });
    w.toServer.intercept = next;
    try {
      await storm(w, async (round) => {
        const victim = round % 2;
        const other = servers[1 - victim];
        await servers[victim].stop('SIGKILL');
        w.server = other;
        servers[victim] = other;
        servers[victim] = await w.anotherServer();
      });
    } finally {
      w.server = servers[0];
      await servers[1].stop();
    }
  }, { store: 'postgres' });
});
