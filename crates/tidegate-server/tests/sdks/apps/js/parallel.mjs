// Parallel steps.
import { RetryAfterError, define, on, referenceFunction, released, times } from './context.mjs';

async function three({ work }) {
  const numbers = await Promise.all([1, 2, 3].map((n) => work(`part-${n}`, () => n)));
  return work('sum', () => numbers.reduce((sum, n) => sum + n));
}
define('three', {}, on('three'), three);
define('three-plain', { checkpointing: false, optimizeParallelism: true }, on('three-plain'), three);
define('three-each', { checkpointing: false, optimizeParallelism: false }, on('three-each'), three);

async function chain(work, name) {
  const first = await work(`${name}-1`, () => 1);
  return work(`${name}-2`, () => first + 1);
}
define('chains', {}, on('chains'), async ({ work }) => {
  const [a, b] = await Promise.all([chain(work, 'a'), chain(work, 'b')]);
  return { a, b };
});

define('mixed', {}, on('mixed'), async ({ step, work }) => {
  const [, answer, quick] = await Promise.all([
    step.sleep('nap', '4s'),
    step.waitForEvent('answer', { event: 't/answer', match: 'data.id', timeout: '60s' }),
    work('quick', () => 'quick'),
  ]);
  return { answer: answer?.data.say, quick };
});

define('race', {}, on('race'), async ({ event, group, work }) => {
  const start = () => Promise.race([
    work('fast', () => 'fast'),
    work('slow', async () => {
      await released(event.data.hold);
      return 'slow';
    }),
  ]);
  const winner = await (group?.parallel ? group.parallel(start) : start());
  const after = await work('after', () => 'after');
  return { winner, after };
});

define('one-fails', {}, on('one-fails'), ({ event, runId, work }) => Promise.all([
  work('good', () => 'good'),
  work('bad', () => {
    if (times(runId, 'bad') < 1) throw new RetryAfterError('once', '1s');
    return 'bad';
  }),
  work('long', async () => {
    await released(event.data.hold);
    return 'long';
  }),
]));

define('held-two', {}, on('held-two'), async ({ event, work }) => {
  const values = await Promise.all(['left', 'right'].map((id) => work(id, async () => {
    await released(event.data[id]);
    return id;
  })));
  return work('join', () => values.join('+'));
});

/** A run of the storms: every kind of step, with a child. */
define('storm', { retries: 20 }, on('storm'), async ({ event, step, work }) => {
  const first = await work('first', () => event.data.n);
  await step.sleep('nap', '500ms');
  const parts = await Promise.all([1, 2, 3].map((n) => work(`part-${n}`, () => first + n)));
  const answer = await step.waitForEvent('answer', { event: 't/storm-answer', match: 'data.n', timeout: '10m' });
  const child = await step.invoke('child', { function: referenceFunction({ functionId: 'storm-child' }), data: { n: event.data.n } });
  const last = await work('last', () => parts.reduce((sum, n) => sum + n) + child + answer.data.plus);
  return last;
});
define('storm-child', { retries: 20 }, on('storm-child'), ({ event, work }) => work('double', () => event.data.n * 2));
