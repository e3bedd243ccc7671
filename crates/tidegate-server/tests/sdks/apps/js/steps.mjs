// Steps: values, order, repeated ids, large memos.
import { client, define, log, on, pause, released } from './context.mjs';

define('plain', {}, on('plain'), ({ event }) => ({ echo: event.data }));

async function twoSteps({ event, work }) {
  const first = await work('first', () => 2 + (event.data.add ?? 0));
  const second = await work('second', () => first * 10);
  return { first, second };
}
define('two-steps', {}, on('two-steps'), twoSteps);
define('two-steps-plain', { checkpointing: false }, on('two-steps-plain'), twoSteps);

define('void-step', {}, on('void-step'), async ({ work }) => {
  const nothing = await work('nothing', () => {});
  const after = await work('after', () => 'done');
  return { nothing: nothing ?? null, after };
});

define('loop', {}, on('loop'), async ({ work }) => {
  const items = [];
  for (let i = 0; i < 3; i += 1) items.push(await work('item', () => i));
  return items;
});

define('held', {}, on('held'), async ({ event, work }) => {
  const before = await work('before', () => 1);
  const held = await work('held', async () => {
    await released(event.data.hold);
    return 2;
  });
  const after = await work('after', () => 3);
  return before + held + after;
});

/** A function of as many steps as the event says, each of as many bytes. */
define('many', { checkpointing: false }, on('many'), async ({ event, work }) => {
  let length = 0;
  for (let i = 0; i < event.data.steps; i += 1) {
    const text = await work(`part-${i}`, () => String(i).padEnd(event.data.bytes, 'x'));
    length += text.length;
  }
  return { length };
});

export const TRICKY = {
  floats: [0.1, 1e21, 1e-7, -1.5, 5e-324, 1.7976931348623157e308, 100],
  integers: [9007199254740991, -9007199254740991, 0],
  'clé 鍵 🔑': { 'ö': 'ü', '\u0001': '\u2028', z: null, a: [null, { b: null }] },
  empty: [{}, [], '', null],
};

define('values', {}, on('values'), async ({ event, work }) => {
  const tricky = await work('tricky', () => TRICKY);
  const echo = await work('echo', () => ({ data: event.data, tricky }));
  return echo;
});

define('sender', {}, on('sender'), async ({ event, step, work }) => {
  const sent = await step.sendEvent('send', [1, 2].map((n) => ({ name: 't/sent', data: { n, of: event.data.key } })));
  await work('after', () => sent.ids.length);
  await step.sleep('nap', '1s');
  return { sent: sent.ids.length };
});
define('receiver', {}, { event: 't/sent' }, ({ event }) => event.data);

/** Sends by the client, outside of steps, as a web handler does. */
export async function send(events) {
  const { ids } = await client.send(events);
  log({ what: 'sent', ids });
  return ids;
}

define('slow', {}, on('slow'), async ({ event, work }) => {
  await work('slow', () => pause(event.data.ms));
  return 'slow';
});
