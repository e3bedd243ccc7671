// Acceptance: flow control, judged from the application's log.
import assert from 'node:assert/strict';
import { suite } from './rig/suite.mjs';
import { unique, until } from './rig/world.mjs';

const LONG = 60_000;

/** Executions of the step `work` by runs whose event satisfies `match`, in order of their begin. */
function executions(w, fn, match) {
  // The log grows: what is read first has its earlier lines in what is read later.
  const begins = w.log({ what: 'begin', fn, step: 'work' });
  const data = new Map(w.log({ what: 'body', fn }).map((line) => [line.run, line.data]));
  const ends = new Map(w.log({ what: 'end', fn, step: 'work' }).map((line) => [line.run, line.at]));
  return begins
    .map(({ run, at }) => ({ run, begin: at, end: ends.get(run) ?? Infinity, data: data.get(run) }))
    .filter((it) => match(it.data));
}

/** The most executions that were in progress at the same time. */
function most(list) {
  return Math.max(...list.map(({ begin }) => list.filter((it) => it.begin <= begin && begin < it.end).length));
}

const events = (fn, list) => list.map((data) => ({ name: `t/${fn}`, data }));
const numbers = (count) => Array.from({ length: count }, (_, n) => n);
const ended = (w, ids, fn) => Promise.all(ids.map((id) => w.ended(id, fn, LONG)));

/** Outputs of the runs that these events have started; each run counts once. */
async function outputs(w, ids) {
  const runs = new Map((await Promise.all(ids.map((id) => w.runs(id)))).flat().map((run) => [run.id, run]));
  return [...runs.values()].map(({ output }) => output);
}

suite({}, (S) => {
  S('S47', 'a batch of three is one run, in order of sending; its time-out flushes less', async (w) => {
    const key = unique('full');
    const full = await w.send(...events('batched', [1, 2, 3].map((n) => ({ key, n }))));
    await w.ended(full[0], 'batched');
    assert.deepEqual(await outputs(w, full), [[1, 2, 3]]);
    const rest = await w.send(...events('batched', [4, 5].map((n) => ({ key, n }))));
    await w.ended(rest[0], 'batched');
    assert.deepEqual(await outputs(w, rest), [[4, 5]]);
  });

  S('S48', 'debounce: one run with the last event', async (w) => {
    const key = unique('burst');
    const ids = await w.send(...events('debounced', [1, 2, 3].map((n) => ({ key, n }))));
    const run = await w.ended(ids[2], 'debounced');
    assert.equal(run.output, 3);
    assert.deepEqual(await outputs(w, ids), [3]);
  });

  S('S48', 'the time-out of a debounce ends a window that new events keep open', async (w) => {
    // Each window is kept open by events every 100 ms. On a busy machine a gap may be longer than
    // the period, which ends a window by itself: such a window is no proof, and is tried again.
    await until(async () => {
      const key = unique('stream');
      const begin = Date.now();
      let [longest, last] = [0, begin];
      await until(async () => {
        await w.start('debounced', { key });
        longest = Math.max(longest, Date.now() - last);
        last = Date.now();
        await new Promise((done) => { setTimeout(done, 100); });
        return w.log({ what: 'body', fn: 'debounced' }).some(({ data }) => data.key === key);
      }, 'a run while events still come');
      return longest < 900 && last - begin >= 2500;
    }, 'a window that only its time-out has ended', 3 * LONG);
  });

  S('S49', 'ten of ten at once run under a rate limit of ten a minute; the eleventh is dropped', async (w) => {
    const key = unique('rate');
    const ids = await w.send(...events('limited', numbers(11).map((n) => ({ key, n }))));
    await ended(w, ids.slice(0, 10), 'limited');
    assert.deepEqual((await outputs(w, ids)).sort((a, b) => a - b), numbers(10));
    const { receipts } = await w.api('GET', `/events/${encodeURIComponent(ids[10])}`);
    assert.match(JSON.stringify(receipts), /rateLimit/);
  });

  S('S50', 'the second event of a key starts nothing', async (w) => {
    const key = unique('once');
    const [first, second] = await w.send(...events('once', [{ key, n: 1 }, { key, n: 2 }]));
    await w.ended(first, 'once');
    await w.completes('plain', {});
    assert.deepEqual(await outputs(w, [first, second]), [1]);
  });

  S('S51', 'singleton skip starts no second run; a key that gives false switches it off', async (w) => {
    const [key, hold] = [unique('single'), unique('hold')];
    const on = await w.send(...events('single-skip', [1, 2].map((n) => ({ key, hold, on: true, n }))));
    const off = await w.send(...events('single-skip', [3, 4].map((n) => ({ key, hold, on: false, n }))));
    await until(() => executions(w, 'single-skip', (data) => data.key === key).length === 3, 'three runs at work');
    await w.release(hold);
    await ended(w, [on[0], ...off], 'single-skip');
    assert.deepEqual((await outputs(w, [...on, ...off])).sort(), [1, 3, 4]);
  });

  S('S51', 'singleton cancel ends the first run', async (w) => {
    const key = unique('newest');
    const first = await w.start('single-cancel', { key, on: true, n: 1, time: '1h' });
    await until(() => w.log({ what: 'body', fn: 'single-cancel' }).some(({ data }) => data.key === key), 'the first run');
    const second = await w.start('single-cancel', { key, on: true, n: 2, time: '1s' });
    assert.equal((await w.ended(first, 'single-cancel')).state, 'cancelled');
    assert.equal((await w.ended(second, 'single-cancel')).output, 2);
  });

  S('S52', 'concurrency 1 by account: never two executions for one account, in order', async (w) => {
    const accounts = ['a', 'b'].map(unique);
    const data = numbers(12).map((n) => ({ n, accountId: accounts[n % 2] }));
    await ended(w, await w.send(...events('exclusive', data)), 'exclusive');
    for (const account of accounts) {
      const list = executions(w, 'exclusive', (it) => it.accountId === account);
      assert.equal(most(list), 1);
      const order = list.map((it) => it.data.n);
      assert.deepEqual(order, [...order].sort((a, b) => a - b));
      assert.equal(order.length, 6);
    }
  });

  S('S52', 'concurrency 2 by key: at most two, and two at once', async (w) => {
    const [key, hold] = [unique('pair'), unique('hold')];
    const ids = await w.send(...events('pair', numbers(10).map((n) => ({ key, n, hold }))));
    const list = () => executions(w, 'pair', (it) => it.key === key);
    await until(() => list().length === 2, 'two runs at work');
    await w.release(hold);
    await ended(w, ids, 'pair');
    assert.equal(most(list()), 2);
    assert.equal(list().length, 10);
  });

  S('S52', 'a limit of whole runs holds while a run sleeps', async (w) => {
    const key = unique('whole');
    const ids = await w.send(...events('whole', [1, 2].map((n) => ({ key, n, time: '2s' }))));
    const [first, second] = await ended(w, ids, 'whole');
    const begin = (run) => w.log({ what: 'body', run: run.id })[0].at;
    assert.deepEqual([first.output, second.output], [1, 2]);
    assert.ok(begin(second) >= begin(first) + 2000, `${begin(second) - begin(first)} ms between the starts`);
  }, { on: ['go'] });

  S('S53', 'throttle: starts are spread, none is lost', async (w) => {
    const key = unique('throttle');
    const sent = Date.now();
    await ended(w, await w.send(...events('throttled', numbers(4).map((n) => ({ key, n })))), 'throttled');
    const first = new Map();
    for (const { run, at, data } of w.log({ what: 'body', fn: 'throttled' })) {
      if (data.key === key && !first.has(run)) first.set(run, at);
    }
    const times = [...first.values()].sort((a, b) => a - b).map((at) => at - sent);
    assert.equal(times.length, 4);
    times.forEach((at, i) => assert.ok(at >= i * 1000, `starts after ${times} ms`));
  });

  S('S54', 'a run with a higher priority passes those of the last two minutes', async (w) => {
    const [key, hold] = [unique('rank'), unique('hold')];
    const list = () => executions(w, 'ranked', (it) => it.key === key);
    const first = await w.start('ranked', { key, hold, n: 0 });
    await until(() => list().length === 1, 'the first run at work');
    const rest = await w.send(...events('ranked', [{ key, n: 1 }, { key, n: 2 }, { key, n: 3, urgent: true }]));
    await until(async () => (await Promise.all(rest.map((id) => w.runs(id)))).flat().length === 3, 'three runs in the queue');
    await w.release(hold);
    await ended(w, [first, ...rest], 'ranked');
    assert.deepEqual(list().map((it) => it.data.n), [0, 3, 1, 2]);
  });

  S('S55', 'an event cancels the right run only, also while it sleeps', async (w) => {
    const ids = [unique('cancel'), unique('stays')];
    const [cancelled, stays] = await w.send(...events('cancellable', [{ id: ids[0], time: '1h' }, { id: ids[1], time: '4s' }]));
    const { id } = await w.begun(cancelled, 'cancellable');
    await until(async () => (await w.run(id)).state === 'waiting', 'the run to sleep');
    await w.send({ name: 't/cancel', data: { id: ids[0] } });
    assert.equal((await w.ended(cancelled, 'cancellable')).state, 'cancelled');
    assert.equal((await w.ended(stays, 'cancellable')).output, 'not cancelled');
  });

  S('S56', 'runs that start too late or take too long end', async (w) => {
    const [key, hold] = [unique('late'), unique('hold')];
    const first = await w.start('slow-start', { key, hold });
    await until(() => executions(w, 'slow-start', (it) => it.key === key).length === 1, 'the first run at work');
    const late = await w.start('slow-start', { key });
    assert.equal((await w.ended(late, 'slow-start')).state, 'cancelled');
    await w.release(hold);
    assert.equal((await w.ended(first, 'slow-start')).state, 'completed');
    const long = await w.ended(await w.start('slow-finish'), 'slow-finish');
    assert.ok(['cancelled', 'failed'].includes(long.state), long.state);
  });

  S('S64', 'why names the control that holds a run, with the key as the SDK spells it', async (w) => {
    const [accountId, hold] = [unique('account'), unique('hold')];
    const first = await w.start('exclusive', { accountId, hold });
    await until(() => executions(w, 'exclusive', (it) => it.accountId === accountId).length === 1, 'the first run at work');
    const second = await w.start('exclusive', { accountId });
    const { id } = await w.begun(second, 'exclusive');
    const why = JSON.stringify(await w.api('GET', `/runs/${id}/why`));
    await w.release(hold);
    for (const word of ['concurrency', accountId, '1 at once', 'position 1']) assert.ok(why.includes(word), `${word} in ${why}`);
    await ended(w, [first, second], 'exclusive');
  });
});
