// Tests every page with the demo, which has data for each of them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { PICTURES, api, closeBrowser, demo, look, until } from './rig.mjs';

const PAGES = ['overview', 'workflows', 'runs', 'events', 'events?tab=deferred', 'gates', 'pools', 'streams', 'flows', 'audit', 'try'];
const AXE = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let world = /** @type {Awaited<ReturnType<typeof demo>>} */ (/** @type {unknown} */ (null));
before(async () => {
  world = await demo();
});
after(async () => {
  await closeBrowser();
  await world.stop();
});

for (const theme of /** @type {const} */ (['light', 'dark'])) {
  test(`every page can be read in ${theme} colours, by everybody`, async () => {
    // The page's content security policy would not allow injecting axe into it, so it is bypassed.
    const seen = await look(world.url, { colorScheme: theme, bypassCSP: true });
    for (const page of PAGES) {
      await seen.go(`/${page}`);
      await seen.rest();
      await seen.page.screenshot({ path: path.join(PICTURES, `${page.replace('?tab=', '-')}-${theme}.png`) });
      await seen.page.evaluate(AXE);
      await seen.rest();
      const found = await seen.page.evaluate(() => /** @type {any} */ (globalThis).axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }));
      const serious = found.violations.filter((/** @type {any} */ it) => ['serious', 'critical'].includes(it.impact));
      const told = serious.map((/** @type {any} */ it) => `${it.id}: ${it.nodes[0].html} ${it.nodes[0].failureSummary}`);
      assert.deepEqual(told, [], `${page}, ${theme}`);
    }
    await seen.close();
  });
}

test('the first load is small and complete', async () => {
  const seen = await look(world.url);
  await seen.go('/overview');
  await seen.page.waitForLoadState('load');
  await seen.settled();
  const bytes = seen.fetched.reduce((sum, it) => sum + it.bytes, 0);
  assert.ok(seen.fetched.length > 10, 'files of the console were fetched');
  assert.ok(bytes < 150_000, `${bytes} bytes: ${seen.fetched.map((it) => `${it.url} ${it.bytes}`).join('\n')}`);
  await seen.close();
});

test('the pages of someone on call fit a phone', async () => {
  const seen = await look(world.url, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
  for (const page of ['overview', 'runs', 'events?tab=deferred', 'audit', 'pools']) {
    await seen.go(`/${page}`);
    await seen.rest();
    const [wide, room] = await seen.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= room, `${page} is ${wide} wide on ${room}`);
    await seen.page.screenshot({ path: path.join(PICTURES, `${page.replace('?tab=', '-')}-phone.png`) });
  }
  await seen.close();
});

test('the tour runs to its end', async () => {
  const seen = await look(world.url);
  await seen.go('/overview');
  await seen.page.getByRole('button', { name: 'Take the tour' }).click();
  const tour = seen.page.getByRole('dialog', { name: 'Tour' });
  const steps = Number((await tour.getByText(/^1 of \d+$/).textContent())?.split(' ').at(-1));
  for (let step = 2; step <= steps; step++) {
    await tour.getByRole('button', { name: 'Next' }).click();
    await tour.getByText(`${step} of ${steps}`, { exact: true }).waitFor();
  }
  await tour.getByRole('button', { name: 'Done' }).click();
  await tour.waitFor({ state: 'detached' });
  await seen.close();
});

test('the pictures of the README show a noisy tenant held back, and why', async () => {
  const { get } = api(world.url);
  const acme = async () => (await get('/gates?workflow=render-report&key=acme')).gates[0]?.line?.first ?? [];
  const seen = await look(world.url, { viewport: { width: 1180, height: 640 } });
  await seen.go('/overview');
  await seen.page.getByRole('row', { name: /acme/ }).first().waitFor();
  await seen.page.screenshot({ path: path.join(PICTURES, 'overview.png') });
  await seen.go('/gates');
  await until(async () => (await acme()).length > 3, 'acme has a queue');
  await seen.page.getByText(/[3-9] queued/).first().waitFor();
  await seen.page.screenshot({ path: path.join(PICTURES, 'gates.png') });
  let last;
  await until(async () => {
    const line = await acme();
    last = line.at(-1);
    return line.length > 3;
  }, 'acme has a queue again');
  await seen.go(`/runs/${last}`);
  await seen.page.getByRole('region', { name: 'Why' }).waitFor();
  await seen.rest();
  await seen.page.screenshot({ path: path.join(PICTURES, 'run.png') });
  await seen.close();
});

test('a blocked stream is unblocked from the page', async () => {
  const { get } = api(world.url);
  const blocked = async () => (await get('/reactions?blocked=true')).streams;
  const same = (/** @type {any} */ a) => (/** @type {any} */ b) => a.reaction === b.reaction && a.stream === b.stream && a.version === b.version;
  for (let tries = 1; ; tries++) {
    await until(async () => (await blocked()).length > 0, 'a stream of the demo is blocked');
    const place = (await blocked())[0];
    if (!place) continue;
    const seen = await look(world.url);
    await seen.go(`/streams?reaction=${place.reaction}&blocked=true`);
    seen.page.setDefaultTimeout(20_000);
    const details = seen.page.getByRole('dialog', { name: 'Details' });
    try {
      await seen.page.getByRole('row', { name: new RegExp(place.stream) }).first().click();
      await details.getByRole('button', { name: 'Unblock …', exact: true }).click();
      await details.getByRole('button', { name: 'Unblock 1 stream …', exact: true }).click();
      await seen.page.getByRole('dialog', { name: 'Unblock 1 stream?' }).getByRole('button', { name: 'Unblock', exact: true }).click();
      // The demo unblocks streams too. The page shows this text only for its own request, and with
      // 0 streams if the demo was first.
      await seen.page.getByText('1 stream unblocked', { exact: true }).waitFor();
    } catch (error) {
      // The demo unblocked the stream first, or the machine is slow: try again with another stream.
      if (tries >= 4) throw error;
      await seen.close();
      continue;
    }
    await until(async () => !(await blocked()).some(same(place)), `${place.stream} is unblocked`);
    return seen.close();
  }
});
