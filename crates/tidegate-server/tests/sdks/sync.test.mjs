// Acceptance: registration.
import assert from 'node:assert/strict';
import { SDKS } from './rig/processes.mjs';
import { suite } from './rig/suite.mjs';
import { World, unique, until } from './rig/world.mjs';

const registrations = (w) => w.toServer.entries.filter(({ path }) => path.startsWith('/fn/register'));
const version = async (w, fn) => (await w.api('GET', `/workflows/${fn}?app=acceptance`)).version;

async function register(w, body) {
  const answer = await fetch(`${w.server.url}/fn/register`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  return { status: answer.status, body: await answer.json() };
}

suite({ sync: false }, (S, sdk) => {
  S.alone('S1', 'PUT leads to one registration, answered with ok', async (w) => {
    const answer = await fetch(w.appUrl, { method: 'PUT' });
    assert.equal(answer.status, 200);
    assert.equal(registrations(w).length, 1);
    assert.equal(registrations(w)[0].answer.ok, true);
    assert.equal(registrations(w)[0].answer.modified, true);
    const names = new Set((await w.api('GET', '/workflows')).workflows.map(({ name }) => name));
    for (const fn of ['plain', 'two-steps', 'cron', 'everything']) assert.ok(names.has(fn), `${fn} in ${[...names]}`);
  });

  S.alone('S2', 'the same registration again makes no version', async (w) => {
    await w.sync();
    const before = await version(w, 'everything');
    await w.sync();
    assert.equal(registrations(w).at(-1).answer.modified, false);
    assert.equal(await version(w, 'everything'), before);
  });

  S.alone('S3', 'the registrations of all SDKs give the same definition', async (w) => {
    await w.sync();
    const definitions = {};
    const settings = async (world) => {
      const { workflows } = await world.api('GET', '/workflows');
      const found = workflows.find(({ name }) => name === 'everything');
      const { flowControl, triggers, retry, timeoutMs, startWithinMs } = { ...found, ...found.definition };
      return JSON.parse(JSON.stringify({ flowControl, triggers, retry, timeoutMs, startWithinMs }));
    };
    definitions[sdk.name] = await settings(w);
    assert.ok(definitions[sdk.name].flowControl, JSON.stringify(definitions));
    for (const name of Object.keys(SDKS).filter((it) => it !== sdk.name)) {
      const world = await World.start(name);
      try {
        definitions[name] = await settings(world);
      } finally {
        await world.stop();
      }
      assert.deepEqual(definitions[name], definitions[sdk.name], name);
    }
  }, { on: ['js4'] });

  S.alone('S4', 'keys in any case, null and empty lists are understood', async (w) => {
    await w.sync();
    const { body } = registrations(w)[0];
    const url = body.functions[0].steps.step.runtime.url.replace(/fnId=[^&]*/, 'fnId=spelled-single');
    const fn = {
      id: 'spelled-single', name: 'single', triggers: [{ event: 't/spelled', expression: null }], retries: 2,
      Singleton: { Key: 'event.data.key', Mode: 'skip' }, cancel: [], concurrency: [], debounce: null, throttle: null, batchEvents: null, priority: null,
      steps: { step: { id: 'step', name: 'step', runtime: { type: 'http', url } } },
    };
    const answer = await register(w, { url: body.url, appname: 'spelled', framework: 'custom', sdk: 'go:v0.15.0', deploy_type: 'ping', v: '0.1', functions: [fn] });
    assert.deepEqual(answer, { status: 200, body: { ok: true, modified: true } });
    const { workflows } = await w.api('GET', '/workflows');
    const found = workflows.find(({ app, name }) => app === 'spelled' && name === 'single');
    assert.match(JSON.stringify(found), /singleton/);
  }, { on: ['js4'] });

  S.alone('S5', 'a function that is gone is retired; its runs finish', async (w) => {
    await w.sync();
    const hold = unique('hold');
    const event = await w.start('held', { hold });
    const { id } = await w.begun(event, 'held');
    await until(() => w.executions(id, 'held') === 1, 'the run at its held step');
    const { body } = registrations(w)[0];
    const rest = body.functions.filter((fn) => fn.id !== 'acceptance-held');
    assert.equal(rest.length, body.functions.length - 1);
    assert.deepEqual(await register(w, { ...body, functions: rest }), { status: 200, body: { ok: true, modified: true } });
    const nothing = await w.start('held', {});
    await w.release(hold);
    assert.equal((await w.ended(event, 'held')).output, 6);
    assert.deepEqual(await w.runs(nothing), []);
  });

  S.alone('S6', 'a refused control gives 400 with a sentence, which the SDK shows', async (w) => {
    const answer = await fetch(w.appUrl, { method: 'PUT' });
    const [registration] = registrations(w);
    assert.equal(registration.status, 400);
    assert.equal(registration.answer.status, 400);
    assert.match(registration.answer.error, /refused/);
    const text = await answer.text();
    assert.ok(text.includes(JSON.stringify(registration.answer.error).slice(1, 40)), `${registration.answer.error} in ${text}`);
  }, { world: { app: { REFUSED: '1' } } });

  S.alone('S7', 'the server syncs an application that it is told of, in band or not', async (w) => {
    await until(async () => (await w.api('GET', '/workflows')).workflows.some(({ name }) => name === 'plain'), 'the functions');
    const put = await until(() => w.toApp.entries.find(({ method, status }) => method === 'PUT' && status === 200), 'the answer of the application');
    assert.equal(put.headers['x-inngest-sync-kind'], 'in_band');
    const obeyed = put.answerHeaders['x-inngest-sync-kind'] === 'in_band';
    assert.equal(registrations(w).length > 0, !obeyed, `${registrations(w).length} registrations, in band: ${obeyed}`);
    assert.deepEqual((await w.completes('two-steps', {})).output, { first: 2, second: 20 });
  }, { world: { server: (w) => ({ config: `[inngest]\napps = ["${w.toApp.url}/api/inngest"]\n` }) } });
});
