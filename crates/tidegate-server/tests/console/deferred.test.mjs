// Deferred events: listed with their delivery, and cancelled before it after a look at their content.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { PICTURES, api, closeBrowser, look, serve, target, until } from './rig.mjs';

/** @type {Awaited<ReturnType<typeof target>>} */ let service;
/** @type {Awaited<ReturnType<typeof serve>>} */ let server;
/** @type {ReturnType<typeof api>} */ let ask;

before(async () => {
  service = await target();
  server = await serve(`[[workflow]]
name = "remind"
url = "${service.url}"
triggers = ["trial/ends"]
cancelOn = { event = "trial/paid", match = { user = "user" } }
`);
  ask = api(server.url);
  await ask.post('/events', { name: 'trial/ends', data: { user: 7 }, delayMs: 3_600_000, dedupeId: 'trial-7' });
  await ask.post('/events', { name: 'trial/ends', data: { user: 8 }, delayMs: 7_200_000 });
});

after(async () => {
  service.close();
  await closeBrowser();
  await server.stop();
});

const waiting = async () => (await ask.get('/deferred')).deferred;

test('a deferred event is listed and cancelled after a preview of its content', async () => {
  const seen = await look(server.url);
  await seen.go('/events?tab=deferred');
  const list = seen.page.getByRole('table', { name: 'Deferred events and requests' });
  await list.getByRole('row', { name: /in 1 h.*trial\/ends.*"user":8/ }).waitFor();
  await seen.page.screenshot({ path: path.join(PICTURES, 'deferred.png') });
  await list.getByRole('row', { name: /"user":7/ }).getByRole('button', { name: 'Cancel trial/ends' }).click();
  const dialog = seen.page.getByRole('dialog', { name: 'Cancel this event?' });
  await dialog.getByText('"user": 7').waitFor();
  await dialog.getByText('trial-7').waitFor();
  await dialog.getByRole('button', { name: 'Go back' }).click();
  assert.equal((await waiting()).length, 2, 'a preview changes nothing');
  await list.getByRole('row', { name: /"user":7/ }).getByRole('button', { name: 'Cancel trial/ends' }).click();
  await dialog.getByRole('button', { name: 'Cancel event' }).click();
  await until(async () => (await waiting()).length === 1, 'one delivery is cancelled');
  await list.getByRole('row', { name: /"user":7/ }).waitFor({ state: 'detached' });
  await seen.close();
});

test('the live tail and the details of an event name its delivery instead of verdicts', async () => {
  const seen = await look(server.url);
  await seen.go('/events');
  const tail = seen.page.getByRole('table', { name: 'Events' });
  await tail.getByRole('row', { name: /"user":8/ }).getByText('deferred', { exact: true }).waitFor();
  await tail.getByRole('row', { name: /"user":7/ }).getByText('before its delivery').waitFor();
  await tail.getByRole('row', { name: /"user":8/ }).click();
  const details = seen.page.getByRole('dialog', { name: 'Details' });
  await details.getByText(/delivered in/).waitFor();
  await details.getByRole('button', { name: 'Cancel …' }).click();
  await seen.page.getByRole('dialog', { name: 'Cancel this event?' }).getByRole('button', { name: 'Cancel event' }).click();
  await until(async () => (await waiting()).length === 0, 'nothing waits for its delivery');
  await details.getByText('before its delivery').waitFor();
  await seen.go('/events?tab=deferred');
  await seen.page.getByText('Nothing waits for its delivery').waitFor();
  await seen.close();
});

test('the answer to an event says how many runs it has cancelled', async () => {
  await ask.post('/events', { name: 'trial/ends', data: { user: 9 } });
  const seen = await look(server.url);
  await seen.go(`/try?name=trial/paid&data=${encodeURIComponent('{"user": 9}')}`);
  await seen.page.getByRole('button', { name: 'Send event' }).click();
  await seen.page.getByText('cancelled 1 run by cancelOn').waitFor();
  assert.equal((await ask.get('/runs?workflow=remind')).runs[0].state, 'cancelled');
  await seen.close();
});

test('the form for an event says in words how the controls of its workflow treat it', async () => {
  const seen = await look(server.url);
  await seen.go('/try?name=trial/ends');
  await seen.page.getByText('cancelOn: Cancelled by an event trial/paid with the same user.').waitFor();
  await seen.close();
});
