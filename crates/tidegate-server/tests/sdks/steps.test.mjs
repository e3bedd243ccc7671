// Acceptance: steps and errors.
import assert from 'node:assert/strict';
import { suite } from './rig/suite.mjs';
import { until } from './rig/world.mjs';

const LONG = 120_000; // the first backoffs are 15 s and 30 s

suite({}, (S, sdk) => {
  S('S16', 'two steps without checkpoints: three calls; the second sees the value of the first', async (w) => {
    const run = await w.completes('two-steps-plain', { add: 5 });
    assert.deepEqual(run.output, { first: 7, second: 70 });
    assert.equal(w.calls(run.id).length, 3);
    assert.equal(w.checkpoints(run.id).length, 0);
  });

  S('S17', 'with checkpoints: one call and two posts', async (w) => {
    const run = await w.completes('two-steps', {});
    assert.deepEqual(run.output, { first: 2, second: 20 });
    assert.equal(w.calls(run.id).length, 1);
    assert.deepEqual(w.checkpoints(run.id).map(({ status }) => status), [200, 200]);
  }, { needs: 'checkpoints' });

  S('S17', 'with checkpoints of many steps: the steps that were not posted are in the answer', async (w) => {
    const run = await w.completes('buffered', {});
    assert.equal(run.output, 6);
    assert.equal(w.checkpoints(run.id).length, 0);
    assert.deepEqual(w.calls(run.id).map(({ answer }) => answer.length), [3, undefined]);
    for (const step of ['part-1', 'part-2', 'part-3']) assert.equal(w.executions(run.id, step), 1, step);
  }, { on: ['go'] });

  S('S18', 'a step without a result is remembered as data null', async (w) => {
    const run = await w.completes('void-step', {});
    assert.deepEqual(run.output, { nothing: null, after: 'done' });
    assert.equal(w.executions(run.id, 'nothing'), 1);
    const memos = w.calls(run.id).flatMap(({ body }) => Object.values(body.steps));
    assert.ok(sdk.checkpoints || memos.some((memo) => memo.data === null), JSON.stringify(memos));
  });

  S('S19', 'the same id in a loop gives distinct steps, in order', async (w) => {
    const run = await w.completes('loop', {});
    assert.deepEqual(run.output, [0, 1, 2]);
    const { steps } = await w.api('GET', `/runs/${run.id}/steps`);
    assert.equal(new Set(steps.map(({ id }) => id)).size, 3);
    assert.deepEqual(steps.map(({ output }) => output?.data ?? output), [0, 1, 2]);
  });

  S('S20', 'a step that throws twice is tried a third time; the one before it does not run again', async (w) => {
    const run = await w.completes('flaky', {}, { patience: LONG });
    assert.equal(run.output, 'third');
    assert.equal(w.executions(run.id, 'before'), 1);
    assert.equal(w.executions(run.id, 'flaky'), 3);
  });

  S('S21', 'a step that always throws fails after its attempts; the function can catch it', async (w) => {
    const run = await w.completes('always', {}, { patience: LONG });
    assert.equal(run.output.caught.message, 'never works');
    assert.equal(run.output.after, 'went on');
    assert.equal(w.executions(run.id, 'always'), 2);
  });

  S('S21', 'a step that panics is tried again, and fails its run', async (w) => {
    const run = await w.fails('panics', {}, { patience: LONG });
    assert.match(JSON.stringify(run.error), /out of range/);
    assert.equal(w.executions(run.id, 'panics'), 2);
  }, { on: ['go'] });

  S('S22', 'not caught: the run fails, and its failure handler runs once with error and event', async (w) => {
    const run = await w.fails('uncaught', { order: 17 }, { patience: LONG });
    assert.match(JSON.stringify(run.error), /nobody catches this/);
    const failure = await until(() => w.log({ what: 'failure', run: run.id })[0], 'the failure handler');
    assert.deepEqual(failure.data, { order: 17 });
    assert.match(failure.error.message, /nobody catches this/);
    assert.match(failure.fn, /uncaught$/);
    await w.completes('plain', {});
    assert.equal(w.log({ what: 'failure', run: run.id }).length, 1);
  });

  S('S23', 'an error that says so is not tried again', async (w) => {
    const run = await w.ended(await w.start('fatal-step'), 'fatal-step');
    assert.equal(w.executions(run.id, 'fatal'), 1);
    // Python answers 500 for the whole function: its code cannot catch the error.
    if (sdk.name === 'py') assert.equal(run.state, 'failed');
    else assert.match(run.output.caught.message, /give up/);
  });

  for (const fn of ['retry-after-step', 'retry-after-body']) {
    for (const mode of ['seconds', 'date']) {
      S('S24', `${fn} as ${mode} is kept`, async (w) => {
        const run = await w.completes(fn, { mode });
        const [first, second] = w.calls(run.id);
        const waited = second.at - first.end;
        // Some SDKs send a date with whole seconds, computed in the middle of the call. The default
        // would be 15 s.
        assert.ok(waited >= 900 && waited < 10_000, `called again after ${waited} ms`);
      });
    }
  }

  S('S25', 'an error outside of steps is tried again; remembered steps do not run again', async (w) => {
    const run = await w.completes('body-error', {});
    assert.deepEqual(run.output, { second: 2 });
    assert.equal(w.executions(run.id, 'first'), 1);
    assert.equal(w.executions(run.id, 'second'), 1);
  });

  S('S26', 'a final error of the function ends the run at once', async (w) => {
    const run = await w.fails('fatal-body', {});
    assert.match(JSON.stringify(run.error), /final/);
    assert.ok(w.calls(run.id).every(({ body }) => body.ctx.attempt === 0));
    const last = w.calls(run.id).at(-1);
    assert.equal(last.answerHeaders['x-inngest-no-retry'], 'true');
    assert.equal(last.status, ['py', 'go'].includes(sdk.name) ? 500 : 400);
  });

  S('S27', 'name, message, stack and cause of an error come back unchanged', async (w) => {
    const run = await w.completes('described', {});
    assert.equal(run.output.message, 'card declined');
    // Errors of Go have neither a stack nor a cause, but the value that the step has returned beside.
    if (sdk.name !== 'go') assert.match(run.output.stack, /card declined/);
    if (sdk.name.startsWith('js')) assert.equal(run.output.cause.message, 'no funds');
    const reported = w.calls(run.id).flatMap(({ answer }) => (Array.isArray(answer) ? answer : [])).find(({ error }) => error);
    const sent = w.calls(run.id).flatMap(({ body }) => Object.values(body.steps)).find((memo) => memo?.error);
    for (const part of ['name', 'message', 'stack', 'cause', 'data']) assert.deepEqual(sent.error[part], reported.error[part], part);
    assert.equal(run.output.name, reported.error.name);
  });

  S('S28', 'attempts begin at 0 for each step and after each success', async (w) => {
    const run = await w.completes('attempts', {});
    assert.deepEqual(w.calls(run.id).map(({ body }) => body.ctx.attempt), [0, 1, 0, 1, 0, 0]);
    assert.ok(w.calls(run.id).every(({ body }) => body.ctx.max_attempts === 5));
  });

  S('S31', 'a step that the code no longer has is retried and then fails, without an endless loop', async (w) => {
    const event = await w.start('changed');
    const { id } = await w.begun(event, 'changed');
    await until(() => w.log({ what: 'fail', run: id, step: 'goes' })[0], 'the first failure');
    await w.rig({ revision: 2 });
    const run = await w.ended(event, 'changed', LONG);
    const targeted = w.calls(id).filter(({ path }) => !path.includes('stepId=step'));
    assert.ok(targeted.length <= 5, `${targeted.length} calls`);
    assert.ok(w.calls(id).length <= 10, `${w.calls(id).length} calls`);
    assert.equal(w.executions(id, 'goes'), 1);
    assert.ok(['failed', 'completed'].includes(run.state));
  });
});
