// Acceptance: events.
import assert from 'node:assert/strict';
import { suite } from './rig/suite.mjs';
import { unique, until } from './rig/world.mjs';

suite({}, (S) => {
  S('S9', 'sending one event and many returns as many ids', async (w) => {
    const name = `t/${unique('any')}`;
    const one = await w.appSends([{ name, data: { n: 1 } }]);
    assert.equal(one.ids?.length, 1, JSON.stringify(one));
    const many = await w.appSends(Array.from({ length: 20 }, (_, n) => ({ name, data: { n } })));
    assert.equal(new Set(many.ids).size, 20);
    const posts = w.toServer.entries.filter((entry) => entry.path.startsWith('/e/') && entry.text.includes(name));
    assert.deepEqual(posts.map(({ status, answer }) => [status, answer.status]), [[200, 200], [200, 200]]);
  });

  S('S10', 'the same request with the same seed adds nothing', async (w) => {
    const key = unique('seed');
    const { ids } = await w.appSends([{ name: 't/plain', data: { key, n: 1 } }, { name: 't/plain', data: { key, n: 2 } }]);
    const post = w.toServer.entries.find((entry) => entry.path.startsWith('/e/') && entry.text.includes(key));
    assert.ok(post.headers['x-inngest-event-id-seed'], 'the SDK sends a seed');
    const again = await fetch(w.server.url + post.path, { method: 'POST', headers: { 'content-type': 'application/json', 'x-inngest-event-id-seed': post.headers['x-inngest-event-id-seed'] }, body: post.text });
    assert.deepEqual((await again.json()).ids, ids);
    await Promise.all(ids.map((id) => w.ended(id, 'plain')));
    await w.completes('plain', {});
    for (const id of ids) assert.equal((await w.runs(id)).length, 1);
    assert.equal(w.log({ what: 'body', fn: 'plain' }).filter(({ data }) => data.key === key).length, 2);
  });

  S('S11', 'the same event id twice starts one run', async (w) => {
    const id = unique('order');
    const first = await w.start('plain', { n: 1, id }, { id });
    await w.start('plain', { n: 2, id }, { id });
    await w.ended(first, 'plain');
    await w.completes('plain', {});
    const bodies = w.log({ what: 'body', fn: 'plain' }).filter(({ data }) => data.id === id);
    assert.deepEqual(bodies.map(({ data }) => data.n), [1]);
  });

  S('S12', 'names of the server are refused with 400', async (w) => {
    const answer = await fetch(`${w.server.url}/e/test`, { method: 'POST', body: JSON.stringify({ name: 'inngest/function.failed', data: {} }) });
    assert.equal(answer.status, 400);
    const body = await answer.json();
    assert.equal(body.status, 400);
    assert.match(body.error, /inngest\//);
  });

  S('S13', 'a function without steps: one call, its value as returned', async (w) => {
    const data = { n: 1.5, text: 'ä', nested: { list: [1, null] } };
    const run = await w.completes('plain', data);
    assert.deepEqual(run.output, { echo: data });
    assert.equal(w.calls(run.id).length, 1);
    const runs = await fetch(`${w.server.url}/v1/events/${run.eventId}/runs`);
    const { data: [listed] } = await runs.json();
    assert.equal(listed.run_id, run.id);
    assert.equal(listed.status, 'Completed');
    assert.deepEqual(listed.output, { echo: data });
  });

  S('S14', 'an event with a time in the future starts nothing earlier', async (w) => {
    const ts = Date.now() + 2000;
    const run = await w.completes('plain', { when: 'later' }, { event: { ts } });
    const [body] = w.log({ what: 'body', run: run.id });
    assert.ok(body.at >= ts, `started ${ts - body.at} ms too early`);
  });

  S('S15', 'wildcards and expressions of triggers select the right events', async (w) => {
    const wild = await w.start('wild/deep/one', { n: 1 });
    const both = await w.start('wild/both', { n: 2 });
    const [small, other, right] = await w.send(
      { name: 't/filtered', data: { n: 5, kind: 'x' } },
      { name: 't/filtered', data: { n: 6, kind: 'y' } },
      { name: 't/filtered', data: { n: 6, kind: 'x' } },
    );
    await w.ended(wild, 'wild');
    await w.ended(both, 'wild');
    await w.ended(right, 'filtered');
    assert.equal((await w.runs(both)).length, 1);
    assert.deepEqual(await w.runs(small), []);
    assert.deepEqual(await w.runs(other), []);
  });

  S.alone('S8', 'after kill -9 and restart, events and crons work without a new sync', async (w) => {
    const before = w.toServer.entries.length;
    await w.crash();
    await w.completes('two-steps', {});
    await until(() => w.log({ what: 'body', fn: 'cron' }).length, 'the next full minute', 90_000);
    assert.ok(!w.toServer.entries.slice(before).some((entry) => entry.path.startsWith('/fn/register')));
  }, { slow: true });
});
