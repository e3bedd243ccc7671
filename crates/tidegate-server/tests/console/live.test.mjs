// Pages show the server's state, and their actions take effect on the server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { api, closeBrowser, look, serve, target, until } from './rig.mjs';

const stores = /** @type {[string, string | undefined][]} */ ([['SQLite', undefined]]);
if (process.env.TIDEGATE_CONSOLE_POSTGRES) stores.push(['PostgreSQL', process.env.TIDEGATE_CONSOLE_POSTGRES]);

after(closeBrowser);

for (const [name, store] of stores) {
  /** @type {Awaited<ReturnType<typeof target>>} */ let service;
  /** @type {Awaited<ReturnType<typeof serve>>} */ let server;
  /** @type {ReturnType<typeof api>} */ let ask;

  before(async () => {
    service = await target();
    server = await serve(
      `[[workflow]]
name = "report"
url = "${service.url}"
concurrency = { limit = 2, key = "tenant" }

[[workflow]]
name = "save"
url = "${service.url}"
debounce = { periodMs = 600000, key = "doc" }
`,
      store,
    );
    ask = api(server.url);
  });

  after(async () => {
    service.letGo();
    service.close();
    await server.stop();
  });

  test(`numbers follow a burst, and are what the server says at rest, on ${name}`, async () => {
    const seen = await look(server.url);
    await seen.go('/overview');
    const figure = (/** @type {string} */ of) => seen.page.locator(`[data-figure="${of}"]`).textContent();
    await ask.post('/events', Array.from({ length: 20 }, (_, n) => ({ name: 'report', data: { tenant: 'acme', n } })));
    await ask.post('/events', Array.from({ length: 7 }, () => ({ name: 'save', data: { doc: 'plan' } })));
    await until(async () => (await figure('Queued')) === '18' && (await figure('Debouncing')) === '7', 'the page shows the burst');
    const [stats, flow] = [await ask.get('/runs/stats'), await ask.get('/flow-state')];
    assert.deepEqual([stats.inFlight, stats.queued], [2, 18]);
    // The page is updated twice a second, so the test waits until each number equals the server's.
    const debouncing = flow.workflows.reduce((/** @type {number} */ sum, /** @type {any} */ it) => sum + it.debounce.pending, 0);
    for (const [of, number] of [['In flight', stats.inFlight], ['Queued', stats.queued], ['Debouncing', debouncing]]) {
      await until(async () => (await figure(of)) === String(number), `${of} is ${number}`);
    }
    await seen.page.getByRole('row', { name: /acme/ }).getByText('18', { exact: true }).waitFor();
    await seen.close();
  });

  test(`a number that JavaScript cannot hold is shown as it was sent, on ${name}`, async () => {
    const data = '{"n":12345678901234567890,"all":[9007199254740993,1,1e400,0.12345678901234567]}';
    const body = `{"name":"big","data":${data}}`;
    await fetch(`${server.url}/events`, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    const seen = await look(server.url);
    await seen.go('/events?name=big');
    await seen.page.getByText(data).first().waitFor();
    await seen.close();
  });

  test(`why names the gate and its holders, on ${name}`, async () => {
    const { runs } = await ask.get('/runs?workflow=report&state=queued&limit=100');
    const { gates } = await ask.get('/gates?workflow=report');
    const last = runs[0].id;
    const seen = await look(server.url);
    await seen.go(`/runs/${last}`);
    const why = seen.page.getByRole('region', { name: 'Why' });
    await why.getByText('concurrency').first().waitFor();
    const text = await why.textContent();
    assert.match(text ?? '', /acme/);
    for (const holder of gates[0].holders) await why.locator(`a[href*="${holder}"]`).first().waitFor();
    await seen.close();
  });

  test(`a run is paused, resumed and cancelled from its page, on ${name}`, async () => {
    const { runs } = await ask.get('/runs?workflow=report&state=queued&limit=100');
    const run = runs[0].id;
    const seen = await look(server.url);
    await seen.go(`/runs/${run}`);
    await seen.page.getByRole('button', { name: 'Pause' }).click();
    await seen.page.getByText(/^Run (paused|keeps its position)/).waitFor();
    await seen.page.getByRole('button', { name: /^Cancel/ }).click();
    await seen.page.getByRole('dialog').getByRole('button', { name: 'Cancel run' }).click();
    await until(async () => (await ask.get(`/runs/${run}`)).state === 'cancelled', 'it is cancelled');
    await seen.page.getByText('cancelled', { exact: true }).first().waitFor();
    await seen.close();
  });

  test(`a limit is changed from the page, and binds at once, on ${name}`, async () => {
    const seen = await look(server.url);
    await seen.go('/workflows?open=report');
    await seen.page.getByRole('button', { name: /^Change/ }).first().click();
    await seen.page.getByRole('spinbutton').first().fill('5');
    await seen.page.getByRole('button', { name: 'Release' }).click();
    await until(async () => (await ask.get('/runs/stats')).inFlight === 5, 'five are let in');
    assert.equal((await ask.get('/workflows/report')).flowControl.concurrency.limit, 5);
    await seen.close();
  });
}
