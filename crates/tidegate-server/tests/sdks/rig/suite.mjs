// Acceptance tests: one for each behaviour and SDK, by the numbers of the protocol's list.
import { after, before, describe, test } from 'node:test';
import { SDKS } from './processes.mjs';
import { World } from './world.mjs';

const words = (name) => (process.env[name] ?? '').split(/[ ,]+/).filter(Boolean);
const chosen = words('TIDEGATE_SDKS').length ? words('TIDEGATE_SDKS') : Object.keys(SDKS);
const only = words('TIDEGATE_SDK_TESTS');
const full = Boolean(process.env.TIDEGATE_TEST_FULL);

/** Tests of one world that run at the same time: most of them wait for the server. */
const CONCURRENCY = 12;

/**
 * Declares the tests of one file. `declare(S, sdk)` calls `S(number, sentence, body, options)`;
 * `S.alone` gives its test a world of its own, started with `options.world`. Options: `needs` (a
 * feature of the SDK), `slow` (only with --full, or if named), `store` (only on that one).
 */
export function suite(options, declare) {
  for (const name of chosen) {
    const sdk = { name, ...SDKS[name] };
    const shared = [];
    const alone = [];
    const add = (list) => (number, sentence, body, settings = {}) => {
      if (only.length && !only.includes(number)) return;
      if (settings.slow && !full && !only.length) return;
      if (settings.needs && !sdk[settings.needs]) return;
      if (settings.on && !settings.on.includes(name)) return;
      list.push({ title: `${number} ${name}: ${sentence}`, number, body, settings });
    };
    const S = add(shared);
    S.alone = add(alone);
    declare(S, sdk);
    if (shared.length) {
      describe(name, { concurrency: CONCURRENCY }, () => {
        let world;
        before(async () => { world = await World.start(name, options); });
        after(() => world?.stop());
        for (const it of shared) test(it.title, () => repeatable(it, name, () => it.body(world)));
      });
    }
    for (const it of alone) {
      test(it.title, { skip: missing(it.settings) }, () => repeatable(it, name, async () => {
        const { store } = it.settings;
        const world = await World.start(name, { ...options, ...it.settings.world, store });
        try {
          await it.body(world);
        } finally {
          await world.stop();
        }
      }));
    }
  }
}

function missing({ store }) {
  return store === 'postgres' && !process.env.TIDEGATE_TEST_POSTGRES && 'several servers share a store only on PostgreSQL';
}

/** A failure says how to repeat the test. */
async function repeatable({ number }, sdk, body) {
  try {
    await body();
  } catch (error) {
    const store = process.env.TIDEGATE_SDK_STORE === 'postgres' ? ' --store postgres' : '';
    error.message += `\nrepeat with: scripts/test-sdks --sdk ${sdk}${store} ${number}`;
    throw error;
  }
}
