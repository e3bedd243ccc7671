// Workers on the overview page: busy workers, their workflows, and the runs that wait for a worker.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { api, closeBrowser, look, serve, target, until } from './rig.mjs';

after(closeBrowser);

test('workers that are all busy are shown, and the runs that wait for them', async () => {
  const service = await target();
  const server = await serve(`workers = 2\n[[workflow]]\nname = "slow"\nurl = "${service.url}"\n`);
  const ask = api(server.url);
  const { events } = await ask.post('/events', Array.from({ length: 5 }, () => ({ name: 'slow' })));
  const told = events.map((/** @type {any} */ it) => it.runs[0].control ?? 'started');
  assert.deepEqual(told, ['started', 'started', 'workers', 'workers', 'workers']);
  const seen = await look(server.url);
  await seen.go('/overview');
  const ready = () => seen.page.locator('[data-figure="Ready"]').textContent();
  await until(async () => (await ready())?.startsWith('3 runs have') ?? false, 'three runs wait for a worker');
  const calls = seen.page.getByRole('table', { name: 'Workers of this server' }).getByRole('row', { name: /calls/ });
  assert.match((await calls.textContent()) ?? '', /2 \/ 2.*2 × slow/s);
  await seen.go('/runs?state=queued');
  await seen.page.getByText('no free worker').first().waitFor();
  assert.equal(await seen.page.getByText('no free worker').count(), 3);
  service.letGo();
  await seen.go('/overview');
  await until(async () => (await ready()) === 'No runs are waiting for a worker.', 'all runs have been called');
  await seen.close();
  service.close();
  await server.stop();
});
