// Acceptance: parallel steps.
import assert from 'node:assert/strict';
import { suite } from './rig/suite.mjs';
import { unique, until } from './rig/world.mjs';

/** Longer than it takes to notice that a server is dead. */
const TAKEOVER = 90_000;

const between = (number, least, most, what) => assert.ok(number >= least && number <= most, `${number} ${what}, not ${least} to ${most}`);

async function recorded(w, id) {
  const { steps } = await w.api('GET', `/runs/${id}/steps`);
  return steps;
}

suite({}, (S, sdk) => {
  S('S40', 'three steps at once and a sum', async (w) => {
    const run = await w.completes('three', {});
    assert.equal(run.output, 6);
    for (const step of ['part-1', 'part-2', 'part-3', 'sum']) assert.equal(w.executions(run.id, step), 1, step);
    if (sdk.checkpoints) assert.equal(w.checkpoints(run.id).length, 1);
    const calls = w.calls(run.id).length;
    // With version 1 there is a discovery after each member; those that meet may be one.
    if (sdk.version === 1) between(calls, 6, 9, 'calls');
    else between(calls, 5, 6, 'calls');
  });

  S('S40', 'three steps at once without checkpoints', async (w) => {
    const optimized = await w.completes('three-plain', {});
    between(w.calls(optimized.id).length, 5, 6, 'calls with version 2');
    if (sdk.name === 'py') return;
    const each = await w.completes('three-each', {});
    assert.deepEqual([optimized.output, each.output], [6, 6]);
    between(w.calls(each.id).length, 6, 9, 'calls with version 1');
  });

  S('S41', 'two chains side by side finish, each step once', async (w) => {
    const run = await w.completes('chains', {});
    assert.deepEqual(run.output, { a: 2, b: 2 });
    for (const step of ['a-1', 'a-2', 'b-1', 'b-2']) assert.equal(w.executions(run.id, step), 1, step);
  });

  S('S42', 'sleep, wait and step in one group; a sleep keeps its first deadline', async (w) => {
    const id = unique('mixed');
    const event = await w.start('mixed', { id });
    const run = await w.begun(event, 'mixed');
    await until(() => w.log({ what: 'end', run: run.id, step: 'quick' })[0], 'the step');
    await until(async () => (await w.run(run.id)).state === 'waiting', 'the run to wait');
    await new Promise((done) => { setTimeout(done, 3000); });
    await w.send({ name: 't/answer', data: { id, say: 'hello' } });
    const { output } = await w.ended(event, 'mixed');
    assert.deepEqual(output, { answer: 'hello', quick: 'quick' });
    const [first] = w.calls(run.id);
    const last = w.calls(run.id).at(-1);
    between(last.at - first.end, 3900, 7000, 'ms until the end of a sleep of 4 s');
  });

  S('S43', 'a race ends with the fast step; the slow one changes nothing afterwards', async (w) => {
    const hold = unique('race');
    const event = await w.start('race', { hold });
    const { id } = await w.begun(event, 'race');
    await until(() => w.log({ what: 'end', run: id, step: 'after' }).length, 'the step after the race');
    // SDK 4 does not say that the function has returned while a member of the race is pending.
    if (sdk.version === 1) assert.equal((await w.ended(event, 'race')).state, 'completed');
    await w.release(hold);
    await until(() => w.log({ what: 'end', run: id, step: 'slow' }).length, 'the end of the slow step');
    const run = await w.ended(event, 'race');
    assert.deepEqual(run.output, { winner: 'fast', after: 'after' });
    await w.completes('plain', {});
    assert.deepEqual((await w.run(id)).output, run.output);
    assert.deepEqual(['fast', 'slow', 'after'].map((step) => w.executions(id, step)), [1, 1, 1]);
  }, { needs: 'race' });

  S('S44', 'one of three fails and is tried again alone, while the call of a sibling lasts', async (w) => {
    const hold = unique('sibling');
    const event = await w.start('one-fails', { hold });
    const { id } = await w.begun(event, 'one-fails');
    await until(() => w.executions(id, 'bad') === 2, 'the second attempt while a sibling lasts');
    await w.release(hold);
    const { output } = await w.ended(event, 'one-fails');
    assert.deepEqual(output, ['good', 'bad', 'long']);
    assert.deepEqual(['good', 'bad', 'long'].map((step) => w.executions(id, step)), [1, 2, 1]);
  });

  S.alone('S45', 'kill -9 of the server between two members: a remembered one is never called again', async (w) => {
    const right = unique('right');
    const event = await w.start('held-two', { right });
    const { id } = await w.begun(event, 'held-two');
    await until(async () => (await recorded(w, id)).length === 1, 'the record of the left member');
    await w.crash();
    await until(() => w.executions(id, 'right') === 2, 'the second call of the right member', TAKEOVER);
    await w.release(right);
    const { output } = await w.ended(event, 'held-two', TAKEOVER);
    assert.equal(output, 'left+right');
    assert.deepEqual(['left', 'right', 'join'].map((step) => w.executions(id, step)), [1, 2, 1]);
    assert.equal((await recorded(w, id)).length, 3);
  });

  S.alone('S46', 'two servers on one store: the last two members end at the same time; one discovery', async (w) => {
    const other = await w.anotherServer();
    try {
      const runs = [];
      for (let i = 0; i < 10; i += 1) {
        const hold = unique('both');
        runs.push({ hold, event: await w.start('held-two', { left: hold, right: hold }) });
      }
      for (const run of runs) {
        const { id } = await w.begun(run.event, 'held-two');
        await until(() => w.executions(id, 'left') + w.executions(id, 'right') === 2, 'both members to be called');
        await w.release(run.hold);
        const { output } = await w.ended(run.event, 'held-two');
        assert.equal(output, 'left+right');
        assert.equal(w.executions(id, 'join'), 1);
        assert.equal((await recorded(w, id)).length, 3);
      }
    } finally {
      await other.stop();
    }
  }, { store: 'postgres' });
});
