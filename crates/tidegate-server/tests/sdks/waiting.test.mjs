// Acceptance: sleeps, waits, called functions, signals.
import assert from 'node:assert/strict';
import { suite } from './rig/suite.mjs';
import { unique, until } from './rig/world.mjs';

/** Waits until a run waits for an event or a signal: its wait is durable. */
const waiting = (w, id) => until(async () => (await w.run(id)).state === 'waiting', `${id} to wait`);

suite({}, (S, sdk) => {
  S('S32', 'sleeps last for a duration, and until a moment', async (w) => {
    const run = await w.completes('sleeps', {});
    const [, ...later] = w.log({ run: run.id, what: 'body' });
    const begin = (step) => w.log({ run: run.id, what: 'begin', step })[0].at;
    assert.ok(later.length > 0);
    const first = w.calls(run.id)[0];
    assert.ok(begin('between') >= first.at + 950, 'the first sleep');
    assert.ok(begin('until') >= begin('between') + 950, 'the second sleep');
    assert.ok(w.calls(run.id).at(-1).at >= Date.parse(run.output.until) - 5, 'until the moment');
  });

  S('S33', 'an event with the same id resumes the run with the whole event; another one does not', async (w) => {
    const id = unique('wait');
    const event = await w.start('waits', { id, timeout: '60s' });
    const run = await w.begun(event, 'waits');
    await waiting(w, run.id);
    await w.send({ name: 't/answer', data: { id: 'another', say: 'no' } });
    await w.send({ name: 't/answer', data: { id, say: 'yes' }, user: { name: 'Ada' }, v: '2' });
    const { output } = await w.ended(event, 'waits');
    assert.deepEqual(output.answer.data, { id, say: 'yes' });
    const [memo] = Object.values(w.calls(run.id).at(-1).body.steps);
    assert.deepEqual({ ...memo, id: '', ts: 0 }, { id: '', name: 't/answer', data: { id, say: 'yes' }, user: { name: 'Ada' }, v: '2', ts: 0 });
    assert.equal(typeof memo.ts, 'number');
    assert.ok(memo.id);
  });

  S('S34', 'a wait that times out is null', async (w) => {
    const run = await w.completes('waits', { id: unique('nobody'), timeout: '1s' });
    assert.deepEqual(run.output, { answer: null });
  });

  S('S35', 'an event from before the wait does not count', async (w) => {
    const id = unique('early');
    await w.send({ name: 't/answer', data: { id } });
    const run = await w.completes('waits', { id, timeout: '2s' });
    assert.deepEqual(run.output, { answer: null });
  });

  S('S36', 'value, error, time-out and absence of a called function arrive', async (w) => {
    const call = async (target, rest = {}) => (await w.completes('caller', { target, ...rest })).output;
    const [value, failed, late, missing] = await Promise.all([
      call('callee', { data: { n: 21 } }),
      call('callee-fails'),
      call('callee-sleeps', { timeout: '1s' }),
      call('no-such-function'),
    ]);
    assert.deepEqual(value, { value: { doubled: 42 } });
    assert.match(failed.error.message, /callee is broken/);
    assert.match(late.error.message, /time/i);
    assert.match(missing.error.message, /no-such-function/);
  });

  S('S37', 'a called function that a control refuses fails its caller at once', async (w) => {
    const data = { key: unique('busy') };
    await w.begun(await w.start('callee-single', data), 'callee-single');
    const { output } = await w.completes('caller', { target: 'callee-single', data });
    assert.match(output.error.message, /singleton/i);
  });

  S('S37', 'a call does not count for the rate limit of events (spec A5)', async (w) => {
    const data = { key: unique('limited') };
    await w.begun(await w.start('callee-limited', data), 'callee-limited');
    const { output } = await w.completes('caller', { target: 'callee-limited', data });
    assert.deepEqual(output, { value: 'limited' });
  });

  S('S38', 'step.sendEvent sends once, however often the function is called', async (w) => {
    const key = unique('sends');
    const run = await w.completes('sender', { key });
    assert.deepEqual(run.output, { sent: 2 });
    const received = () => w.log({ what: 'body', fn: 'receiver' }).filter(({ data }) => data.of === key).map(({ data }) => data.n).sort();
    await until(() => received().length >= 2, 'both events');
    assert.deepEqual(received(), [1, 2]);
    const posts = w.toServer.entries.filter((entry) => entry.path.startsWith('/e/') && entry.text.includes(key));
    assert.equal(posts.length, 1);
    assert.ok(sdk.checkpoints || w.calls(run.id).length > 2);
  });

  S('S39', 'a signal resumes the run that waits for it', async (w) => {
    const signal = unique('signal');
    const event = await w.start('signal', { signal, timeout: '60s' });
    await waiting(w, (await w.begun(event, 'signal')).id);
    await w.completes('signaller', { signal });
    const run = await w.ended(event, 'signal');
    assert.deepEqual(run.output, { answer: { signal, data: { hello: 'there' } } });
  }, { needs: 'signals' });

  S('S39', 'a signal for which nobody waits is 404, and no error in the SDK', async (w) => {
    const signal = unique('nobody');
    await w.completes('signaller', { signal });
    const post = w.toServer.entries.find((entry) => entry.path.startsWith('/v1/signals') && entry.text.includes(signal));
    assert.equal(post.status, 404);
  }, { needs: 'signals' });

  S('S39', 'a signal that does not come is null', async (w) => {
    const run = await w.completes('signal', { signal: unique('never'), timeout: '1s' });
    assert.deepEqual(run.output, { answer: null });
  }, { needs: 'signals' });
});
