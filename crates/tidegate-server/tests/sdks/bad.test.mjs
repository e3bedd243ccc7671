// Applications that misbehave: the run fails or is retried with a message that names the cause, and
// the server stays healthy.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { suite } from './rig/suite.mjs';
import { until } from './rig/world.mjs';

const SDK = { 'x-inngest-sdk': 'js:v4.24.0', 'x-inngest-req-version': '2', 'content-type': 'application/json' };
const id = (text) => createHash('sha1').update(text).digest('hex');
const step = (op, name, rest = {}) => ({ op, id: id(name), name, displayName: name, ...rest });
const answer = (status, body, headers = SDK) => (request, response) => response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body));

/** What the application answers, and what the error of the run must say. */
const TABLE = {
  garbage: [answer(206, '[{{{'), /not a list of operations/],
  'no-list': [answer(206, { op: 'StepRun' }), /list|array|sequence/i],
  'no-sdk': [answer(200, '<h1>Welcome</h1>', { 'content-type': 'text/html' }), /x-inngest-sdk|SDK/],
  'not-found': [answer(404, 'no such page', { 'content-type': 'text/plain' }), /404/],
  'server-error': [answer(500, { name: 'Error', message: 'database is gone' }), /database is gone/],
  redirect: [answer(302, '', { ...SDK, location: 'http://127.0.0.1:9/elsewhere' }), /302|redirect/i],
  'unknown-opcode': [answer(206, [step('Teleport', 'far')]), /Teleport/],
  'no-id': [answer(206, [{ op: 'StepRun', data: 1 }]), /id/],
  'no-op': [answer(206, [{ id: id('x'), data: 1 }]), /op/],
  'no-duration': [answer(206, [step('Sleep', 'whenever')]), /whenever/],
  'long-sleep': [answer(206, [step('Sleep', 'nap', { name: '9999d' })]), /9999d|366/],
  'nothing-new': [answer(206, []), /nothing|no step|neither/i],
  'changed-id': [changedId, /step/i],
  huge: [huge, /large|limit|MiB|bytes|exceed/i],
  half: [half, /connection|body|incomplete|closed|ended|decod/i],
  reset: [(request) => request.socket.destroy(), /connect|closed|reset|send|request/i],
};

/** A targeted call answers with another step than the one that was asked for. */
function changedId(request, response) {
  const planned = new URL(request.url, 'http://app').searchParams.get('stepId') === 'step';
  const steps = planned ? [step('StepPlanned', 'a'), step('StepPlanned', 'b')] : [step('StepRun', 'another', { data: 1 })];
  answer(206, steps)(request, response);
}

function huge(request, response) {
  response.writeHead(206, SDK);
  const chunk = Buffer.alloc(1 << 20, 'x');
  let sent = 0;
  const more = () => {
    while (sent < 256 && !response.destroyed) {
      sent += 1;
      if (!response.write(chunk)) return response.once('drain', more);
    }
    return response.end();
  };
  more();
}

function half(request, response) {
  response.writeHead(206, { ...SDK, 'content-length': 1000 });
  response.write('[{"op":"StepRun"');
  setTimeout(() => response.destroy(), 20);
}

async function badApp() {
  const server = http.createServer((request, response) => {
    request.resume();
    request.once('end', () => TABLE[new URL(request.url, 'http://app').searchParams.get('fnId').slice('bad-'.length)][0](request, response));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${server.address().port}/api/inngest`, server };
}

const fn = (url, name, retries) => ({
  id: `bad-${name}`, name, triggers: [{ event: `t/bad-${name}` }],
  steps: { step: { id: 'step', name: 'step', runtime: { type: 'http', url: `${url}?fnId=bad-${name}&stepId=step` }, retries: { attempts: retries } } },
});

suite({}, (S) => {
  S('B1', 'each misbehaviour fails its run with its cause, and the server stays healthy', async (w) => {
    const { url, server } = await badApp();
    try {
      const body = { url, appName: 'bad', framework: 'custom', sdk: 'js:v4.24.0', functions: Object.keys(TABLE).map((name) => fn(url, name, 0)) };
      const registered = await fetch(`${w.server.url}/fn/register`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
      assert.equal(registered.status, 200, await registered.text());
      const wrong = [];
      await Promise.all(Object.entries(TABLE).map(async ([name, [, pattern]]) => {
        try {
          const run = await w.ended(await w.start(`bad-${name}`), name, 60_000);
          if (run.state !== 'failed' || !pattern.test(JSON.stringify(run.error))) wrong.push(`${name}: ${run.state} ${JSON.stringify(run.error ?? run.output).slice(0, 300)}`);
        } catch (error) {
          wrong.push(`${name}: ${error.message.slice(0, 600)}`);
        }
      }));
      assert.deepEqual(wrong, []);
      assert.equal((await w.completes('plain', { after: 'all of it' })).state, 'completed');
      assert.equal((await w.api('GET', '/health')).status, 'ok');
      assert.equal((await w.api('GET', '/doctor')).healthy, true);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }, { on: ['js4'] });

  S.alone('S29', 'an answer without the header of an SDK is tried again, even if 200', async (w) => {
    let foreign = 0;
    w.toApp.intercept = () => {
      foreign += 1;
      return foreign === 1 ? { status: 200, headers: { 'content-type': 'text/html' }, body: '<h1>Deploying</h1>' } : undefined;
    };
    const run = await w.completes('plain', { foreign: true }, { patience: 60_000 });
    assert.deepEqual(run.output, { echo: { foreign: true } });
    assert.equal(w.calls(run.id).length, 2);
  });

  S.alone('S30', 'an unknown opcode fails the run with its name', async (w) => {
    w.toApp.intercept = () => ({ status: 206, headers: SDK, body: JSON.stringify([step('Teleport', 'far')]) });
    const event = await w.start('two-steps', {});
    const run = await w.ended(event, 'two-steps');
    assert.equal(run.state, 'failed');
    assert.match(JSON.stringify(run.error), /Teleport/);
    assert.equal(w.calls(run.id).length, 1);
  }, { on: ['js4'] });

  S.alone('B2', 'an application that is away is called again when it is back', async (w) => {
    const port = new URL(w.app.url).port;
    await w.app.stop('SIGKILL');
    const event = await w.start('two-steps', {});
    const { id } = await w.begun(event, 'two-steps');
    await until(() => w.calls(id).length > 0, 'the first call');
    await w.startApp({ PORT: port });
    const run = await w.ended(event, 'two-steps', 90_000);
    assert.deepEqual(run.output, { first: 2, second: 20 });
  }, { on: ['js4'], slow: true });

  S('B5', 'a call that takes longer than half a minute is waited for', async (w) => {
    const run = await w.completes('slow', { ms: 35_000 }, { patience: 90_000 });
    assert.equal(run.output, 'slow');
    assert.equal(w.executions(run.id, 'slow'), 1);
  }, { slow: true });
});
