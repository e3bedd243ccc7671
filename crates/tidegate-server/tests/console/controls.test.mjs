// Sentences for controls: every control (spec controls) has one.
import assert from 'node:assert/strict';
import test from 'node:test';
import { controlsOf, lasting, letsIn, rate } from '../../console/ui/controls.mjs';

const SENTENCES = [
  [{ concurrency: { limit: 2, key: 'tenant' } }, 'At most 2 at once for each tenant; others are queued'],
  [{ concurrency: { limit: 1, span: 'run' } }, 'At most 1 live at once, from admission to end; others are queued'],
  [{ throttle: { limit: 3, perMs: 1000 } }, 'Starts at most 3 per second, no burst; others are queued'],
  [{ throttle: { limit: 3, perMs: 5000, burst: 2 } }, 'Starts at most 3 per 5 s, burst of 2; others are queued'],
  [{ rateLimit: { limit: 10, perMs: 60000, key: ['a.b', 'c'] } }, 'Accepts at most 10 per minute for each a.b › c, burst of 10; events over the limit are dropped'],
  [{ debounce: { periodMs: 4000, maxWaitMs: 15000, key: 'doc' } }, 'One run for each doc after 4 s without events, at most 15 s after the first; it gets the last event'],
  [{ batch: { maxSize: 20, timeoutMs: 8000 } }, 'One run for many events: at 20 events, or 8 s after the first'],
  [{ priority: { shiftMs: 60000 } }, 'Queued as if it had arrived 1 min earlier'],
  [{ singleton: { key: 'account' } }, 'One live run for each account; a new one replaces it'],
  [{ singleton: { mode: 'skip' } }, 'One live run; others are skipped until it ends'],
  [{ idempotency: { key: 'user' } }, 'One run for each user within 1 d; repeats are deduped'],
  [{ handoff: { type: 'keyed', keyField: 'customerId', onNewVersion: 'drain' } }, 'One live run for each customerId across all versions; runs of a newer version wait until the older ones have ended'],
  [{ concurrency: { type: 'singleton', onNewVersion: 'coexist' } }, 'One live run across all versions; each version is counted separately'],
  [{ concurrency: 'queue' }, 'One request at a time for each session; others are queued, first come, first served'],
  [{ concurrency: { policy: 'restart', key: 'user' } }, 'One request at a time for each user; a new one replaces the one in flight'],
  [{ concurrency: { policy: 'queue', key: 'none' } }, 'Requests run concurrently'],
  [{ concurrency: 'allow' }, 'Requests run concurrently'],
];

for (const [written, sentence] of SENTENCES) {
  test(`${JSON.stringify(written)} is told`, () => assert.equal(controlsOf(written)[0].sentence, sentence));
}

test('controls stand in the order in which they act, and know where they are written', () => {
  const all = controlsOf({ concurrency: ['queue', { limit: 50 }], throttle: { limit: 1, perMs: 1000 }, idempotency: {} });
  assert.deepEqual(all.map((it) => [it.control, it.at.join('.')]), [
    ['idempotency', 'idempotency'], ['policy', 'concurrency.0'], ['throttle', 'throttle'], ['concurrency', 'concurrency.1'],
  ]);
});

test('a workflow without controls has none', () => assert.deepEqual(controlsOf(undefined), []));

test('spans and rates are told without what is nought', () => {
  assert.deepEqual([500, 1500, 90_000, 86_400_000, 3_600_000].map(lasting), ['500 ms', '1.5 s', '1 min 30 s', '1 d', '1 h']);
  assert.deepEqual([rate(2, 3_600_000), rate(2, 1500)], ['2 per hour', '2 per 1.5 s']);
  assert.equal(letsIn({ limit: 3, perMs: 1000, burst: 1 }), '3 per second, no burst');
  assert.equal(letsIn({ limit: 2 }), '2 at once');
});
