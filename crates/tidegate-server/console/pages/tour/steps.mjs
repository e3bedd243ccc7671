// What the tour shows, in order. The names are those of the demo's world (src/demo/world/*.rs).
import { get } from '../../lib/api.mjs';
import { to } from '../../lib/route.mjs';

/**
 * @typedef {{ title: string, text: string, where: string | (() => Promise<string>), look?: string[], all?: boolean }} Step
 *   `where`: the page it goes to; `look`: selectors of what is outlined, the first that is there (`all`: all that it finds)
 */

/** The last one of the longest line, so that it still waits while one reads. */
async function waiting() {
  const lines = await Promise.all(['render-report', 'send-mail'].map(async (workflow) => {
    const { gates } = await get('/gates', { workflow, limit: 20 });
    return { workflow, count: Math.max(0, ...gates.map((/** @type {any} */ gate) => gate.line?.count ?? 0)) };
  }));
  const [{ workflow }] = lines.sort((a, b) => b.count - a.count);
  for (const state of ['queued', undefined]) {
    const { runs } = await get('/runs', { workflow, state, limit: 1 });
    if (runs[0]) return to(['runs', runs[0].id]);
  }
  return to('runs', { workflow });
}

/** A run that was replaced by a newer one. */
async function replaced() {
  const { runs } = await get('/runs', { workflow: 'sync-account', state: 'cancelled', limit: 1 });
  return runs[0] ? to(['runs', runs[0].id]) : to('runs', { workflow: 'sync-account' });
}

/** @type {Step[]} */
export const STEPS = [
  {
    title: 'A small world that is alive',
    text: 'Tenants ask for reports, people chat, a shop indexes its products. Nothing here is drawn: every number is read from the rows that decisions are made on, and follows within a second.',
    where: to('overview'),
    look: ['main .cards'],
  },
  {
    title: 'The noisy tenant waits for itself',
    text: 'Acme sends far more reports than its two slots let in, so a line stands at its gate. Globex and Initech share the same workflow and go straight through: a full gate never delays another key.',
    where: to('gates', { workflow: 'render-report' }),
    look: ['main .lane[aria-label*="acme"]', 'main tr:has(code)', 'main .table-box'],
  },
  {
    title: 'Why did this one wait?',
    text: 'While it waits, one sentence names the gate, who is inside, its place in line and what would free it. Once it has begun, the time it waited is split by gate, and sums to the whole.',
    where: waiting,
    look: ['main .why', 'main .page-head'],
  },
  {
    title: 'A provider that takes five a second',
    text: 'Mails come in bursts and leave 200 ms apart, in order, and none is lost. While a burst stands in line, the next turns are drawn ahead: a throttle knows when each will start.',
    where: to('workflows', { open: 'send-mail' }),
    look: ['.drawer .control-card', '.drawer', 'main .table-box'],
  },
  {
    title: 'Many become one',
    text: 'Each key stroke is a save, and one run per document writes the last text when it is quiet. Changed products fill a batch, which is flushed at ten or after four seconds, with every one of them in it.',
    where: to('gates', { idle: 'hide' }),
    look: ['main .lane.fold', 'main .table-box'],
    all: true,
  },
  {
    title: 'The webhook that fired twice',
    text: 'A payment provider delivers everything twice. Each repeat has a receipt that points to the run of the first, and each payment was booked once.',
    where: to('events', { tab: 'receipts', workflow: 'billing/settle' }),
    look: ['main [aria-label="Receipts"]', 'main .table-box', 'main .page-head'],
  },
  {
    title: 'A chat that stays in order',
    text: 'Messages are taken in at once, replies wait for their turn: one per session, first come, first served. Open a session to see who is next and the document that they share.',
    where: to(['flows', 'support'], { idle: 'true' }),
    look: ['main [aria-label="Sessions and other keys"]', 'main [aria-label="Actions"]'],
  },
  {
    title: 'Overtaken, and it says by whom',
    text: 'Only the newest sync of an account matters, so it replaces the one before. This run was cancelled by its successor, and nothing it did afterwards could be written.',
    where: replaced,
    look: ['main .why', 'main .page-head'],
  },
  {
    title: 'A release that drains',
    text: 'The demo releases version 1 and 2 of this assistant in turn. Each customer’s old run ends under the version it began with, and the new one waits for it. Press Release to see it drain again.',
    where: to('workflows', { open: 'assistant' }),
    look: ['.drawer [aria-label="Versions"]', '.drawer .mix', '.drawer', 'main .table-box'],
  },
  {
    title: 'A reaction that is stuck, and how to free it',
    text: 'Now and then an order is damaged: its city’s stream is blocked with the error, and all others go on. Tick it and press Unblock: you see what it would touch before anything happens.',
    where: to('streams', { reaction: 'invoices' }),
    look: ['main tr:has(.state.bad)', 'main .reaction'],
  },
  {
    title: 'Now you',
    text: 'Push against the gates yourself: the dry run says what would become of sixty reports, and Send shows each verdict as it comes. Then look at the gates again.',
    where: to('try', { name: 'render-report', data: '{"tenant": "acme", "pages": 4}', n: 60, field: 'tenant', values: 'acme, globex, initech' }),
    look: ['main form', 'main [data-part="dry"]'],
  },
];
