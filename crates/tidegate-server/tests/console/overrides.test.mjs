// The drawer of a gate: overrides, pauses, closings and purges, each after a preview; pools; and the
// audit log of these changes.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { PICTURES, api, closeBrowser, look, serve, target, until } from './rig.mjs';

/** @type {Awaited<ReturnType<typeof target>>} */ let service;
/** @type {Awaited<ReturnType<typeof serve>>} */ let server;
/** @type {ReturnType<typeof api>} */ let ask;

before(async () => {
  service = await target();
  server = await serve(`[[pool]]
name = "gpu"
concurrency = { limit = 4, fair = { by = "tenant", weights = { acme = 3 } } }

[[workflow]]
name = "render"
url = "${service.url}"
concurrency = { pool = "gpu", cost = 2 }

[[workflow]]
name = "report"
url = "${service.url}"
concurrency = { limit = 2, key = "tenant", queue = { maxWaiting = 50 } }
`);
  ask = api(server.url);
  await ask.post('/events', Array.from({ length: 10 }, (_, n) => ({ name: 'report', data: { tenant: 'acme', n } })));
  await ask.post('/events', Array.from({ length: 5 }, (_, n) => ({ name: 'render', data: { tenant: n < 3 ? 'acme' : 'blue' } })));
});

after(async () => {
  service.letGo();
  service.close();
  await closeBrowser();
  await server.stop();
});

/** Opens the drawer of the only gate that a query finds. @param {string} query */
async function drawer(query) {
  const { gates } = await ask.get(`/gates?${query}`);
  assert.equal(gates.length, 1, query);
  const { control, app, workflow, slot = '', key, pool } = gates[0];
  const id = JSON.stringify(pool ? [control, app, workflow, slot, key, pool] : [control, app, workflow, slot, key]);
  const seen = await look(server.url);
  await seen.go(`/gates?open=${encodeURIComponent(id)}`);
  const details = seen.page.getByRole('dialog', { name: 'Details' });
  await details.getByRole('region', { name: 'Overrides' }).waitFor();
  return { seen, details, apply: (/** @type {string} */ title) => seen.page.getByRole('dialog', { name: title }).getByRole('button', { name: 'Apply' }).click() };
}

const acme = 'workflow=report&control=concurrency&key=acme';
const inForce = async () => (await ask.get('/overrides')).overrides;

test('a limit is overridden with reason and end after a preview, and undone', async () => {
  const { seen, details, apply } = await drawer(acme);
  await details.getByRole('button', { name: 'Change limit' }).click();
  await details.getByLabel('Limit', { exact: true }).fill('5');
  await details.getByLabel('Reason').fill('a larger plan');
  await details.getByLabel('End').selectOption('60');
  await details.getByRole('button', { name: 'Preview' }).click();
  const preview = seen.page.getByRole('dialog', { name: 'Override the limit?' });
  await preview.getByText('Of the waiting runs 3 would enter at once, 5 would go on waiting.').waitFor();
  assert.deepEqual(await inForce(), [], 'a preview changes nothing');
  await apply('Override the limit?');
  await until(async () => (await ask.get(`/gates?${acme}`)).gates[0].inside === 5, 'three more runs are inside');
  const [over] = await inForce();
  assert.deepEqual([over.limit, over.reason, over.target.key], [5, 'a larger plan', 'acme']);
  assert.ok(Date.parse(over.expiresAt) > Date.now(), over.expiresAt);
  await details.getByText('a larger plan').waitFor();
  await details.getByRole('button', { name: 'Undo', exact: true }).click();
  await apply('Undo the latest change?');
  await until(async () => (await inForce()).length === 0, 'no override is in force');
  await details.getByText('None: the definition applies.').waitFor();
  await seen.close();
});

test('starts are paused and resumed, and the drawer names author, reason and drain', async () => {
  const { seen, details, apply } = await drawer(acme);
  await details.getByRole('button', { name: 'Pause starts' }).click();
  await details.getByLabel('Reason').fill('a migration');
  await details.getByRole('button', { name: 'Preview' }).click();
  await apply('Pause first starts?');
  await details.getByText('a migration').waitFor();
  await details.getByText('not drained yet').waitFor();
  assert.equal((await inForce())[0].paused, true);
  await details.getByRole('button', { name: 'Resume' }).click();
  await apply('Resume?');
  await until(async () => (await inForce()).length === 0, 'the pause has ended');
  await seen.close();
});

test('a limit in force is kept when its gate is closed until a time', async () => {
  await fetch(`${server.url}/overrides`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ target: { pool: 'gpu', control: 'concurrency' }, limit: 3 }) });
  const { seen, details, apply } = await drawer('pool=gpu');
  await details.getByText('limit 3', { exact: true }).waitFor();
  await details.getByRole('button', { name: 'Close until' }).click();
  await details.getByRole('button', { name: 'Preview' }).click();
  await apply('Close the gate?');
  await details.getByText('limit 3, closed', { exact: true }).waitFor();
  const [over] = await inForce();
  assert.equal(over.limit, 3);
  assert.ok(Date.parse(over.closedUntil) > Date.now());
  await details.getByRole('button', { name: 'Remove' }).click();
  await apply('Remove the override?');
  await until(async () => (await inForce()).length === 0, 'no override is in force');
  await seen.close();
});

test('the preview of a purge counts the runs that it cancels', async () => {
  const { seen, details } = await drawer(acme);
  const waiting = (await ask.get(`/gates?${acme}`)).gates[0].line.count;
  await details.getByRole('button', { name: 'Purge queue' }).click();
  await details.getByRole('button', { name: 'Preview' }).click();
  const dialog = seen.page.getByRole('dialog', { name: 'Purge the queue?' });
  await dialog.getByText(`${waiting} waiting runs will be cancelled.`).waitFor();
  await dialog.getByRole('button', { name: `Cancel ${waiting} waiting runs` }).click();
  const cancelled = async () => (await ask.get('/runs?workflow=report&state=cancelled&limit=100')).runs.length;
  await until(async () => (await cancelled()) === waiting, `${waiting} runs are cancelled`);
  await seen.close();
});

test('a pool shows its limits, units and users, and why names the turn', async () => {
  const seen = await look(server.url);
  await seen.go('/pools');
  const pool = seen.page.getByRole('region', { name: 'Pool gpu', exact: true });
  await pool.getByText('At most 4 at once; others are queued in turns for each tenant, by weight (acme 3)').waitFor();
  await pool.getByText('2 runs inside with 4 units, 3 queued').waitFor();
  await pool.getByRole('link', { name: 'render' }).waitFor();
  await seen.close();
  const { seen: again, details } = await drawer('pool=gpu');
  await details.getByText('Inside · 2 runs, 4 of 4 units').waitFor();
  await details.getByText(/1st of acme \(weight 3 of 4\)/).waitFor();
  await again.close();
});

test('the weight of one value is overridden from the gate, shown by the pool, and undone', async () => {
  const { seen, details, apply } = await drawer('pool=gpu');
  await details.getByRole('button', { name: 'Change weight' }).click();
  await details.getByLabel('Value of tenant').fill('blue');
  await details.getByLabel('Weight, 1 to 1000').fill('6');
  await details.getByLabel('Reason').fill('catches up');
  await details.getByLabel('End').selectOption('480');
  await details.getByRole('button', { name: 'Preview' }).click();
  await apply('Override the weight?');
  await details.getByText('weight 6', { exact: true }).waitFor();
  const [over] = await inForce();
  assert.deepEqual([over.target, over.weight, over.reason], [{ pool: 'gpu', control: 'concurrency', value: 'blue' }, 6, 'catches up']);
  assert.ok(Date.parse(over.expiresAt) > Date.now(), over.expiresAt);
  await seen.page.screenshot({ path: path.join(PICTURES, 'weights.png') });
  await seen.close();
  const again = await look(server.url);
  await again.go('/pools');
  const pool = again.page.getByRole('region', { name: 'Pool gpu', exact: true });
  await pool.getByText('weight 6', { exact: true }).waitFor();
  const waiting = (await ask.get('/runs?workflow=render&state=queued&limit=10')).runs;
  const whys = await Promise.all(waiting.map((/** @type {any} */ run) => ask.get(`/runs/${run.id}/why`)));
  const blue = whys.find((why) => why.gates[0].fair.value === 'blue');
  assert.match(blue.sentence, /weight 6 of \d+, overridden until .*: catches up/);
  await again.go(`/runs/${blue.run}`);
  const why = again.page.getByRole('region', { name: 'Why' });
  await why.getByText(/pool gpu · takes 2 units · 4 units taken · blue: weight 6 of/).waitFor();
  await again.page.screenshot({ path: path.join(PICTURES, 'why.png') });
  await again.go('/pools');
  await pool.getByRole('button', { name: 'Undo' }).click();
  await again.page.getByRole('dialog', { name: 'Undo the latest change?' }).getByRole('button', { name: 'Apply' }).click();
  await until(async () => (await inForce()).length === 0, 'no weight is in force');
  await pool.getByText('weight 6', { exact: true }).waitFor({ state: 'detached' });
  await again.close();
});

test('the audit log says who changed what, from where, with the state before and after', async () => {
  const seen = await look(server.url);
  await seen.go('/audit');
  const changes = seen.page.getByRole('table', { name: 'Changes' });
  await changes.getByRole('row', { name: /undoOverride.*pool gpu · concurrency · turns of blue/ }).waitFor();
  await changes.getByText('no override → weight 6').waitFor();
  await seen.page.getByLabel('Operation').fill('setOverride');
  await changes.getByRole('row', { name: /undoOverride/ }).first().waitFor({ state: 'detached' });
  await changes.getByRole('row', { name: /report · concurrency · tenant = acme.*no override → limit 5/ }).click();
  const details = seen.page.getByRole('dialog', { name: 'Details' });
  await details.getByText('127.0.0.1').waitFor();
  await details.getByText('"reason": "a larger plan"').waitFor();
  await seen.page.screenshot({ path: path.join(PICTURES, 'audit.png') });
  await seen.close();
});

test('the drawer shows the bound of a queue', async () => {
  const { seen, details } = await drawer(acme);
  await details.getByText(/of at most 50/).waitFor();
  await details.getByText('When the queue is full, new runs are rejected.').waitFor();
  await seen.close();
});
