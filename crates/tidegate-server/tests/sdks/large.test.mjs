// Acceptance: large state, fences, checkpoints.
import assert from 'node:assert/strict';
import { suite } from './rig/suite.mjs';
import { unique, until } from './rig/world.mjs';

const TAKEOVER = 90_000;

suite({}, (S, sdk) => {
  S('S57', 'more than 4 MB of memos are fetched by the SDK, or sent to one that cannot', async (w) => {
    const run = await w.completes('many', { steps: 7, bytes: 900_000 }, { patience: 60_000 });
    assert.deepEqual(run.output, { length: 6_300_000 });
    if (sdk.name === 'go') {
      const last = w.calls(run.id).at(-1).body;
      assert.deepEqual([last.use_api, Object.keys(last.steps).length, last.events.length], [false, 7, 1]);
      return;
    }
    const large = w.calls(run.id).filter(({ body }) => body.ctx.use_api);
    assert.ok(large.length > 0 && large.every(({ body }) => body.use_api && body.events.length === 0));
    const fetched = w.toServer.entries.filter(({ path }) => path.startsWith(`/v0/runs/${run.id}/`));
    assert.ok(fetched.some(({ path }) => path.includes('/actions')) && fetched.some(({ path }) => path.includes('/batch')));
    assert.ok(fetched.every(({ status }) => status === 200));
  });

  S('S57', 'a run of many steps finishes', async (w) => {
    const run = await w.completes('many', { steps: 40, bytes: 10 }, { patience: 60_000 });
    assert.deepEqual(run.output, { length: 400 });
  });

  S.alone('S58', 'a checkpoint of a superseded call gets 409; the answer of that call changes nothing', async (w) => {
    const hold = unique('hold');
    const event = await w.start('held', { hold });
    const { id } = await w.begun(event, 'held');
    await until(() => w.executions(id, 'held') === 1, 'the first call at its held step');
    await w.crash();
    await until(() => w.executions(id, 'held') === 2, 'the second call', TAKEOVER);
    await w.release(hold);
    const run = await w.ended(event, 'held');
    assert.equal(run.output, 6);
    const refused = () => w.checkpoints(id).filter(({ status }) => status === 409);
    await until(() => refused().length > 0, () => `a 409: ${w.checkpoints(id).map(({ status }) => status)}`);
    const { steps } = await w.api('GET', `/runs/${id}/steps`);
    assert.equal(steps.length, 3);
    assert.equal((await w.run(id)).state, 'completed');
  }, { needs: 'checkpoints' });

  S.alone('S59', 'a checkpoint that reaches another server than the one that called is taken', async (w) => {
    const other = await w.anotherServer();
    try {
      const urls = [w.server.url, other.url];
      let turn = 0;
      w.toServer.intercept = ({ path }) => (path.startsWith('/v1/checkpoint/') ? { target: urls[(turn += 1) % 2] } : undefined);
      for (let i = 0; i < 20; i += 1) {
        const run = await w.completes('two-steps', { add: i });
        assert.deepEqual(run.output, { first: 2 + i, second: 20 + 10 * i });
        assert.equal(w.calls(run.id).length, 1);
        assert.deepEqual(w.checkpoints(run.id).map(({ status }) => status), [200, 200]);
      }
    } finally {
      await other.stop();
    }
  }, { needs: 'checkpoints', store: 'postgres' });

  S.alone('S60', 'a run finishes whose checkpoints are answered 404', async (w) => {
    w.toServer.intercept = ({ path }) => (path.startsWith('/v1/checkpoint/') ? { status: 404, headers: { 'content-type': 'application/json' }, body: '{"error":"not found"}' } : undefined);
    const run = await w.completes('two-steps', {}, { patience: 60_000 });
    assert.deepEqual(run.output, { first: 2, second: 20 });
  }, { needs: 'checkpoints' });
});
