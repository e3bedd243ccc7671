// Errors: in steps and outside, retried and final, caught and not.
import { NonRetriableError, RetryAfterError, define, knobs, log, on, times } from './context.mjs';

const named = ({ name, message }) => ({ name, message });

define('flaky', {}, on('flaky'), async ({ runId, work }) => {
  await work('before', () => 1);
  return work('flaky', () => {
    if (times(runId, 'flaky') < 2) throw new RetryAfterError('not yet', '1s');
    return 'third';
  });
});

define('attempts', { checkpointing: false }, on('attempts'), async ({ runId, work }) => {
  for (const id of ['first', 'second']) {
    await work(id, () => {
      if (times(runId, id) < 1) throw new RetryAfterError('once', '1s');
    });
  }
  return work('third', () => 'done');
});

define('always', { retries: 1 }, on('always'), async ({ work }) => {
  let caught;
  try {
    await work('always', () => { throw new Error('never works'); });
  } catch (error) {
    caught = named(error);
  }
  const after = await work('after', () => 'went on');
  return { caught, after };
});

define('uncaught', {
  retries: 0,
  onFailure: ({ event, error }) => {
    log({ what: 'failure', run: event.data.run_id, fn: event.data.function_id, error: named(error), data: event.data.event.data });
  },
}, on('uncaught'), async ({ work }) => {
  await work('fails', () => { throw new Error('nobody catches this'); });
});

define('fatal-step', {}, on('fatal-step'), async ({ work }) => {
  try {
    return await work('fatal', () => { throw new NonRetriableError('give up'); });
  } catch (error) {
    return { caught: named(error) };
  }
});

const after = (mode) => (mode === 'date' ? new Date(Date.now() + 2000) : '2s');

define('retry-after-step', {}, on('retry-after-step'), ({ event, runId, work }) => work('later', () => {
  if (times(runId, 'later') < 1) throw new RetryAfterError('later', after(event.data.mode));
  return 'later';
}));

define('retry-after-body', {}, on('retry-after-body'), async ({ event, runId }) => {
  if (times(runId, 'later') < 1) throw new RetryAfterError('later', after(event.data.mode));
  return 'later';
});

define('body-error', {}, on('body-error'), async ({ runId, work }) => {
  const first = await work('first', () => 1);
  if (times(runId, 'body') < 1) throw new RetryAfterError('outside of steps', '1s');
  const second = await work('second', () => first + 1);
  return { second };
});

define('fatal-body', {}, on('fatal-body'), async ({ work }) => {
  await work('first', () => 1);
  throw new NonRetriableError('final');
});

class Declined extends Error {
  name = 'Declined';
}

define('described', { retries: 0 }, on('described'), async ({ work }) => {
  try {
    return await work('declines', () => {
      throw new Declined('card declined', { cause: new TypeError('no funds') });
    });
  } catch (error) {
    return { ...named(error), stack: error.stack, cause: error.cause && named(error.cause) };
  }
});

/** With `revision` 2 the code has other steps in its group than at revision 1. */
define('changed', { retries: 1 }, on('changed'), async ({ runId, work }) => {
  const ids = knobs.revision === 1 ? ['stays', 'goes'] : ['stays'];
  return Promise.all(ids.map((id) => work(id, () => {
    if (id === 'goes' && times(runId, id) < 1) throw new RetryAfterError('once', '3s');
    return id;
  })));
});
