// Acceptance: signing keys, event keys, and their change.
import assert from 'node:assert/strict';
import { suite } from './rig/suite.mjs';
import { unique } from './rig/world.mjs';

const OLD = `signkey-test-${'ab01'.repeat(16)}`;
const NEW = `signkey-test-${'cd23'.repeat(16)}`;
const WRONG = `signkey-test-${'ef45'.repeat(16)}`;
const EVENT = 'event-key-of-the-tests';

/** Server and application with keys. */
const signed = (server, app) => ({
  keys: { signing: app.INNGEST_SIGNING_KEY ?? OLD, event: EVENT },
  app,
  server: { env: { INNGEST_SIGNING_KEY: OLD, INNGEST_EVENT_KEY: EVENT, ...server } },
});

suite(signed({}, {}), (S, sdk) => {
  S('S61', 'sync, calls, steps, parallel steps and sending work with keys', async (w) => {
    const two = await w.completes('two-steps', { add: 1 });
    assert.deepEqual(two.output, { first: 3, second: 30 });
    assert.equal((await w.completes('three', {})).output, 6);
    const sent = await w.appSends([{ name: 't/plain', data: { by: unique('client') } }]);
    assert.equal((await w.ended(sent.ids[0], 'plain')).state, 'completed');
    assert.ok(w.calls(two.id).every(({ headers }) => /^t=\d+&s=[0-9a-f]{64}$/.test(headers['x-inngest-signature'])));
    if (sdk.checkpoints) assert.ok(w.checkpoints(two.id).every(({ headers }) => headers.authorization.startsWith('Bearer ')));
  });

  S('S61', 'the application refuses calls without a good signature', async (w) => {
    const { id } = await w.completes('plain', {});
    const [call] = w.calls(id);
    const again = (headers) => fetch(w.app.url + call.path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: call.text });
    const signature = call.headers['x-inngest-signature'];
    assert.ok((await again({ 'x-inngest-signature': signature })).ok);
    // SDKs answer 401, or 500 in older versions.
    assert.ok((await again({})).status >= 400);
    assert.ok((await again({ 'x-inngest-signature': signature.replace(/.{8}$/, '00000000') })).status >= 400);
  });

  S('S61', 'the server refuses events and registrations with a wrong key', async (w) => {
    const event = await fetch(`${w.server.url}/e/another-key`, { method: 'POST', body: '{"name":"t/plain"}' });
    assert.ok([401, 403].includes(event.status), `${event.status}`);
    for (const headers of [{}, { authorization: `Bearer ${OLD}` }, { authorization: 'Bearer ' }]) {
      const answer = await fetch(`${w.server.url}/fn/register`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: '{}' });
      assert.ok([401, 403].includes(answer.status), `${answer.status}`);
    }
  });

  S.alone('S61', 'an application with another key is not registered, and its sync says so', async (w) => {
    const answer = await fetch(w.appUrl, { method: 'PUT' });
    const registration = w.toServer.entries.find(({ path }) => path.startsWith('/fn/register'));
    assert.ok([401, 403].includes(registration.status), `${registration.status}`);
    // The SDK of Python answers 200 with the error in the body.
    assert.ok(!answer.ok || /error/.test(await answer.text()));
    const { workflows } = await w.api('GET', '/workflows');
    assert.deepEqual(workflows, []);
  }, { world: { ...signed({}, { INNGEST_SIGNING_KEY: WRONG }), sync: false } });

  S('S62', 'floats, large integers, non-ASCII keys and nested nulls pass the check and come back', async (w) => {
    const data = { floats: [0.1, 1e21, 1e-7, -2.5, 100.0], integers: [9007199254740991, 0], 'clé 鍵 🔑': { 'ö': null, a: [null, { b: null }] }, text: '\u2028\u0001"\\/' };
    const { id, output } = await w.completes('values', data);
    assert.deepEqual(output.data, data);
    assert.deepEqual(output.tricky.integers, [9007199254740991, -9007199254740991, 0]);
    assert.deepEqual(output.tricky.floats, [0.1, 1e21, 1e-7, -1.5, 5e-324, 1.7976931348623157e308, 100]);
    assert.deepEqual(output.tricky['clé 鍵 🔑'], { 'ö': 'ü', '\u0001': '\u2028', z: null, a: [null, { b: null }] });
    assert.deepEqual(output.tricky.empty, [{}, [], '', null]);
    assert.ok(w.calls(id).every(({ status }) => status < 300));
  });

  S.alone('S63', 'the fallback key works while keys are changed', async (w) => {
    // The application has both keys, the server only the old one; then the server changes its key.
    await w.completes('two-steps', {});
    assert.ok((await w.appSends([{ name: 't/plain', data: {} }])).ids);
    w.options.server = { env: { INNGEST_SIGNING_KEY: NEW, INNGEST_SIGNING_KEY_FALLBACK: OLD, INNGEST_EVENT_KEY: EVENT } };
    await w.server.stop();
    await w.startServer();
    await w.completes('two-steps', {});
    await w.sync();
    // The old key is removed from the application.
    await w.app.stop();
    await w.startApp({ INNGEST_SIGNING_KEY_FALLBACK: '' });
    await w.sync();
    await w.completes('two-steps', {});
  }, { world: signed({}, { INNGEST_SIGNING_KEY: NEW, INNGEST_SIGNING_KEY_FALLBACK: OLD }) });
});
