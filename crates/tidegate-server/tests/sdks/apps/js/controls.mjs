// Controls: each function has one, and logs when its work begins and ends.
import { define, on, pause, released } from './context.mjs';

const work = (ms) => async (ctx) => {
  await ctx.work('work', async () => {
    await released(ctx.event.data.hold);
    await pause(ms);
  });
  return ctx.event.data.n ?? null;
};

define('batched', { batchEvents: { maxSize: 3, timeout: '2s', key: 'event.data.key' } }, on('batched'), ({ events }) => events.map(({ data }) => data.n));
define('debounced', { debounce: { period: '1s', key: 'event.data.key', timeout: '3s' } }, on('debounced'), ({ event }) => event.data.n);
define('limited', { rateLimit: { limit: 10, period: '60s', key: 'event.data.key' } }, on('limited'), ({ event }) => event.data.n);
define('once', { idempotency: 'event.data.key' }, on('once'), ({ event }) => event.data.n);

const switched = 'event.data.on ? event.data.key : false';
define('single-skip', { singleton: { key: switched, mode: 'skip' } }, on('single-skip'), work(0));
define('single-cancel', { singleton: { key: switched, mode: 'cancel' } }, on('single-cancel'), async (ctx) => {
  await ctx.step.sleep('nap', ctx.event.data.time);
  return ctx.event.data.n;
});

define('exclusive', { concurrency: { limit: 1, key: 'event.data.accountId' } }, on('exclusive'), work(50));
define('pair', { concurrency: [{ limit: 2, key: 'event.data.key' }] }, on('pair'), work(50));
define('throttled', { throttle: { limit: 1, period: '1s', key: 'event.data.key' } }, on('throttled'), work(0));
define('ranked', {
  concurrency: { limit: 1, key: 'event.data.key' },
  priority: { run: 'event.data.urgent ? 120 : 0' },
}, on('ranked'), work(0));

define('cancellable', { cancelOn: [{ event: 't/cancel', match: 'data.id' }] }, on('cancellable'), async ({ event, step }) => {
  await step.sleep('long', event.data.time);
  return 'not cancelled';
});
define('slow-start', { concurrency: { limit: 1, key: 'event.data.key' }, timeouts: { start: '1s' } }, on('slow-start'), work(0));
define('slow-finish', { timeouts: { finish: '1s' } }, on('slow-finish'), ({ step }) => step.sleep('long', '1h'));

define('wild', {}, [{ event: 't/wild/*' }, { event: 't/wild/both' }], ({ event }) => event.data.n);
define('filtered', {}, { event: 't/filtered', if: 'event.data.n > 5 && event.data.kind == "x"' }, ({ event }) => event.data.n);
define('cron', {}, { cron: 'TZ=Europe/Paris * * * * *' }, () => 'ticked');

/** Every control that may stand beside the others, for a comparison of the definitions. */
define('everything', {
  retries: 7,
  concurrency: [{ limit: 4, key: 'event.data.account.id' }, { limit: 9, scope: 'env', key: '"shared"' }],
  throttle: { limit: 3, period: '1m', burst: 2, key: 'event.data.key' },
  rateLimit: { limit: 100, period: '1h', key: 'event.data.key' },
  priority: { run: 'event.data.rank * 10' },
  timeouts: { start: '10m', finish: '2h' },
  cancelOn: [{ event: 't/cancel', if: 'event.data.id == async.data.id', timeout: '1h' }],
}, on('everything'), () => 'everything');

// A control that no server accepts, for the test of refusals.
if (process.env.REFUSED) {
  define('refused', { concurrency: { limit: 1, key: 'event.data.(' } }, on('refused'), () => null);
}
