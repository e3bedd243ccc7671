// Controls in words: every control (spec controls) has its sentence.
import assert from 'node:assert/strict';
import test from 'node:test';
import { controlsOf, lasting, letsIn, rate } from '../../console/ui/controls.mjs';

const SENTENCES = [
  [{ concurrency: { limit: 2, key: 'tenant' } }, 'At most 2 at once for each tenant; others wait in order'],
  [{ concurrency: { limit: 1, span: 'run' } }, 'At most 1 live at once, from admission to the end; others wait in order'],
  [{ throttle: { limit: 3, perMs: 1000 } }, 'Starts 3 a second at the most, one at a time; others wait for their turn'],
  [{ throttle: { limit: 3, perMs: 5000, burst: 2 } }, 'Starts 3 in 5 s at the most, up to 2 together after a quiet time; others wait for their turn'],
  [{ rateLimit: { limit: 10, perMs: 60000, key: ['a.b', 'c'] } }, 'Lets in 10 a minute for each a.b › c, up to 10 together after a quiet time; what is over is dropped'],
  [{ debounce: { periodMs: 4000, maxWaitMs: 15000, key: 'doc' } }, 'One run for each doc once it has been quiet for 4 s, at the latest 15 s after the first event; it gets the last event'],
  [{ batch: { maxSize: 20, timeoutMs: 8000 } }, 'One run for many events: as soon as there are 20, or 8 s after the first'],
  [{ priority: { shiftMs: 60000 } }, 'Stands in line as if it had come 1 min earlier'],
  [{ singleton: { key: 'account' } }, 'One live run for each account; a new one replaces it'],
  [{ singleton: { mode: 'skip' } }, 'One live run; while it lives, others are skipped'],
  [{ idempotency: { key: 'user' } }, 'One run for each user in 1 d; repeats are dropped as deduped'],
  [{ handoff: { type: 'keyed', keyField: 'customerId', onNewVersion: 'drain' } }, 'One live run for each customerId over all versions; runs of a newer version wait until the older ones are over'],
  [{ concurrency: { type: 'singleton', onNewVersion: 'coexist' } }, 'One live run over all versions; each version is counted by itself'],
  [{ concurrency: 'queue' }, 'One request at a time for each session; others wait, first come, first served'],
  [{ concurrency: { policy: 'restart', key: 'user' } }, 'One request at a time for each user; a new one replaces the one in flight'],
  [{ concurrency: { policy: 'queue', key: 'none' } }, 'Requests run side by side'],
  [{ concurrency: 'allow' }, 'Requests run side by side'],
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
  assert.deepEqual([rate(2, 3_600_000), rate(2, 1500)], ['2 an hour', '2 in 1.5 s']);
  assert.equal(letsIn({ limit: 3, perMs: 1000, burst: 1 }), '3 a second, one at a time');
  assert.equal(letsIn({ limit: 2 }), '2 at once');
});
