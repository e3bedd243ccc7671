// Sentences that describe controls: every control (spec controls) has one.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { controlsOf, lasting, letsIn, namesOf, rate } from '../../console/ui/controls.mjs';
import { api, closeBrowser, look, serve } from './rig.mjs';

/** A control that the console does not know. */
const QUOTA = {
  name: 'quota', purpose: 'share a budget', acts: 'start', onOverflow: 'wait', onActions: true,
  fields: [{ name: 'budget', type: 'count' }, { name: 'key', type: 'path', default: 'the whole workflow' }, { name: 'everyMs', type: 'duration', default: '1000' }],
};

/** @type {Awaited<ReturnType<typeof serve>>} */ let server;
/** @type {import('../../console/lib/controls.mjs').Table} */ let table;

before(async () => {
  server = await serve('[[workflow]]\nname = "report"\nurl = "http://127.0.0.1:9/"\nthrottle = { limit = 2, perMs = 1000 }\n');
  table = await api(server.url).get('/controls');
});

after(async () => {
  await closeBrowser();
  await server.stop();
});

/** The table with one more control, which has gates. */
const extended = () => ({ controls: [...table.controls, QUOTA], gates: [...table.gates, 'quota'] });

const SENTENCES = [
  [{ concurrency: { limit: 2, key: 'tenant' } }, 'At most 2 at once for each tenant; others are queued'],
  [{ concurrency: { limit: 1, span: 'run' } }, 'At most 1 live at once, from admission to end; others are queued'],
  [{ throttle: { limit: 3, perMs: 1000 } }, 'Starts at most 3 per second, no burst; others are queued'],
  [{ throttle: { limit: 3, perMs: 5000, burst: 2 } }, 'Starts at most 3 per 5 s, burst of 2; others are queued'],
  [{ rateLimit: { limit: 10, perMs: 60000, key: ['a.b', 'c'] } }, 'Accepts at most 10 per minute for each a.b › c, burst of 10; events over the limit are dropped'],
  [{ debounce: { periodMs: 4000, maxWaitMs: 15000, key: 'doc' } }, 'One run for each doc after 4 s without events, at most 15 s after the first; it gets the last event'],
  [{ batch: { maxSize: 20, timeoutMs: 8000 } }, 'One run for many events: at 20 events, or 8 s after the first'],
  [{ priority: { shiftMs: 60000 } }, 'Queued as if it had arrived 1 min earlier'],
  [{ priority: { shiftMs: -60000 } }, 'Queued as if it had arrived 1 min later'],
  [{ priority: { shiftMs: { from: 'lead.ms', min: -5, max: 9 } } }, 'Queued as if it had arrived `lead.ms` ms earlier (-5 to 9)'],
  [{ concurrency: { limit: { from: 'plan.seats', min: 1, max: 9 }, key: 'tenant' } }, 'At most `plan.seats` (1 to 9) at once for each tenant; others are queued'],
  [{ concurrency: { limit: 16, cost: 'gb' } }, 'At most 16 units at once, each run takes `gb` units; others are queued'],
  [{ concurrency: { limit: 4, key: 'tenant', span: 'run', cost: 2 } }, 'At most 4 units live at once for each tenant, from admission to end, each run takes 2 units; others are queued'],
  [{ concurrency: { limit: 5, queue: { maxWaiting: 10 } } }, 'At most 5 at once; others are queued, at most 10; beyond that they are rejected'],
  [{ concurrency: { limit: 10, fair: { by: 'account', weights: { acme: 3, blue: 2 } } } }, 'At most 10 at once; others are queued in turns for each account, by weight (acme 3, blue 2)'],
  [{ concurrency: { limit: 10, fair: { by: 'account', weights: { acme: 3 }, defaultWeight: 2 } } }, 'At most 10 at once; others are queued in turns for each account, by weight (acme 3, all others 2)'],
  [{ concurrency: { pool: 'openai' } }, 'Takes 1 unit of the concurrency of pool openai'],
  [{ throttle: { pool: 'openai', cost: ['use', 'tokens'], key: 'customer' } }, 'Takes `use › tokens` units of the throttle of pool openai for each customer'],
  [{ throttle: { limit: 100, perMs: 60000, burst: 100, cost: 'tokens' } }, 'Starts at most 100 units per minute, burst of 100, each run takes `tokens` units; others are queued'],
  [{ startWithinMs: 90_000 }, 'Cancelled as expired unless it starts within 1 min 30 s of being queued'],
  [{ cancelOn: { event: 'cart.bought', match: { 'order.cart': 'cartId', shop: 'shop' }, withinMs: 3_600_000 } }, 'Cancelled by an event cart.bought with the same order.cart (cartId of the run) and shop, within 1 h'],
  [{ singleton: { key: 'account' } }, 'One live run for each account; a new one replaces it'],
  [{ singleton: { mode: 'skip' } }, 'One live run; others are skipped until it ends'],
  [{ singleton: { mode: 'latest' } }, 'One live run; the newest waits for it once it has started, and replaces it before'],
  [{ concurrency: 'latest' }, 'One request at a time for each session; the newest waits and replaces one that has not started'],
  [{ idempotency: { key: 'user' } }, 'One run for each user within 1 d; repeats are deduped'],
  [{ handoff: { type: 'keyed', keyField: 'customerId', onNewVersion: 'drain' } }, 'One live run for each customerId across all versions; runs of a newer version wait until the older ones have ended'],
  [{ concurrency: { type: 'singleton', onNewVersion: 'coexist' } }, 'One live run across all versions; each version is counted separately'],
  [{ concurrency: 'queue' }, 'One request at a time for each session; others are queued, first come, first served'],
  [{ concurrency: { policy: 'restart', key: 'user' } }, 'One request at a time for each user; a new one replaces the one in flight'],
  [{ concurrency: { policy: 'queue', key: 'none' } }, 'Requests run concurrently'],
  [{ concurrency: 'allow' }, 'Requests run concurrently'],
];

for (const [written, sentence] of SENTENCES) {
  test(`${JSON.stringify(written)} is told`, () => assert.equal(controlsOf(written, table)[0].sentence, sentence));
}

test('controls stand in the order in which they act, and know where they are written', () => {
  const all = controlsOf({ concurrency: ['queue', { limit: 50 }], throttle: { limit: 1, perMs: 1000 }, idempotency: {} }, table);
  assert.deepEqual(all.map((it) => [it.control, it.at.join('.')]), [
    ['idempotency', 'idempotency'], ['policy', 'concurrency.0'], ['throttle', 'throttle'], ['concurrency', 'concurrency.1'],
  ]);
});

test('a workflow without controls has none', () => assert.deepEqual(controlsOf(undefined, table), []));

test('spans and rates are told without what is nought', () => {
  assert.deepEqual([500, 1500, 90_000, 86_400_000, 3_600_000].map(lasting), ['500 ms', '1.5 s', '1 min 30 s', '1 d', '1 h']);
  assert.deepEqual([rate(2, 3_600_000), rate(2, 1500)], ['2 per hour', '2 per 1.5 s']);
  assert.equal(letsIn({ limit: 3, perMs: 1000, burst: 1 }), '3 per second, no burst');
  assert.equal(letsIn({ limit: 2 }), '2 at once');
});

test('every control of the server has a sentence of its own', () => {
  for (const { name, purpose } of table.controls) {
    const [control] = controlsOf({ [name]: { limit: 1 } }, table);
    assert.ok(!control.sentence.toLowerCase().startsWith(purpose), `${name}: ${control.sentence}`);
  }
});

test('numbers of a control, and which of them are required, are those of the table', () => {
  const of = (/** @type {string} */ name, /** @type {any} */ from = table) => controlsOf({ [name]: { limit: 1 } }, from).map((it) => [it.numbers, it.needed])[0];
  assert.deepEqual(of('batch'), [['maxSize', 'timeoutMs', 'maxBytes'], ['maxSize', 'timeoutMs']]);
  assert.deepEqual(of('debounce'), [['periodMs', 'maxWaitMs', 'maxSize'], ['periodMs']]);
  assert.deepEqual(of('idempotency'), [['periodMs'], []]);
  assert.deepEqual(of('singleton'), [[], []]);
  assert.deepEqual(of('concurrency'), [['limit', 'cost', 'queue.maxWaiting'], ['limit']]);
  assert.deepEqual(controlsOf({ concurrency: { pool: 'gpu', cost: 2 } }, table)[0].numbers, ['cost']);
  assert.deepEqual(controlsOf({ throttle: { pool: 'gpu', cost: 'units' } }, table)[0].numbers, []);
  assert.deepEqual(of('quota', extended()), [['budget', 'everyMs'], ['budget']]);
});

test('a control that the console does not know has its purpose as its sentence', () => {
  const all = controlsOf({ quota: { budget: 5 }, throttle: { limit: 1, perMs: 1000 } }, extended());
  assert.deepEqual(all.map((it) => it.control), ['throttle', 'quota']);
  assert.equal(all[1].sentence, 'Share a budget: {"budget":5}');
  assert.deepEqual(namesOf(extended()).slice(-2), ['quota', 'policy'], 'after the real ones');
});

test('pages offer the controls that the server lists, and read the list once', async () => {
  const seen = await look(server.url);
  let requests = 0;
  await seen.page.route('**/controls', (route) => {
    requests += 1;
    return route.fulfill({ json: extended() });
  });
  const flowControl = { quota: { budget: 5 } };
  const row = { app: 'default', name: 'report', version: 1, versions: [1], url: 'http://127.0.0.1:9/', triggers: [], flowControl };
  await seen.page.route('**/workflows', (route) => route.fulfill({ json: { workflows: [row] } }));
  const choice = seen.page.locator('select').filter({ hasText: 'quota' });
  const pages = /** @type {[string, string, string[]][]} */ ([
    ['/gates', 'Gates', extended().gates], ['/events?tab=receipts', 'Events', extended().gates], ['/workflows', 'Workflows', namesOf(extended())],
  ]);
  for (const [where, title, names] of pages) {
    await seen.go(where);
    await seen.page.getByRole('heading', { level: 1, name: title }).waitFor();
    await choice.waitFor();
    assert.deepEqual((await choice.locator('option').allTextContents()).slice(1), names, where);
  }
  await seen.page.getByTitle('Share a budget: {"budget":5}').waitFor();
  assert.equal(requests, 1);
  await seen.close();
});
