// Steps of the tour, in order. The workflow names are those of the demo (src/demo/world/*.rs).
import { get } from '../../lib/api.mjs';
import { to } from '../../lib/route.mjs';

/**
 * @typedef {{ title: string, text: string, where: string | (() => Promise<string>), look?: string[], all?: boolean }} Step
 *   `where`: page of the step; `look`: selectors of the outlined element, the first that matches (`all`: all its elements)
 */

/** Last run of the longest queue, so that it still waits while the step is read. */
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

/** Run that was replaced by a newer one. */
async function replaced() {
  const { runs } = await get('/runs', { workflow: 'sync-account', state: 'cancelled', limit: 1 });
  return runs[0] ? to(['runs', runs[0].id]) : to('runs', { workflow: 'sync-account' });
}

/** @type {Step[]} */
export const STEPS = [
  {
    title: 'A live demo',
    text: 'Tenants request reports, people chat, a shop indexes its products. Nothing is simulated: every number is read from the rows that decisions are made on, and is updated within a second.',
    where: to('overview'),
    look: ['main .cards'],
  },
  {
    title: 'A noisy tenant delays only itself',
    text: 'Acme requests far more reports than its two slots allow, so they queue at its gate. Globex and Initech use the same workflow and start at once: a full gate never delays another key.',
    where: to('gates', { workflow: 'render-report' }),
    look: ['main .lane[aria-label*="acme"]', 'main tr:has(code)', 'main .table-box'],
  },
  {
    title: 'Why is this run waiting?',
    text: 'While a run is queued, one sentence names the gate, its holders, the position in the queue and what frees the gate. Once it has started, its queue time is split by gate and adds up to the total.',
    where: waiting,
    look: ['main .why', 'main .page-head'],
  },
  {
    title: 'A provider that accepts five per second',
    text: 'Mails arrive in bursts and leave 200 ms apart, in order, and none is lost. While a burst is queued, the next grants are drawn ahead: a throttle knows when each run will start.',
    where: to('workflows', { open: 'send-mail' }),
    look: ['.drawer .control-card', '.drawer', 'main .table-box'],
  },
  {
    title: 'Many events, one run',
    text: 'Each key stroke is a save; debounce starts one run per document, with the last text. Changed products fill a batch, which is flushed at ten products or after four seconds, with all of them in it.',
    where: to('gates', { idle: 'hide' }),
    look: ['main .lane.fold', 'main .table-box'],
    all: true,
  },
  {
    title: 'The webhook that fired twice',
    text: 'A payment provider delivers everything twice. Each duplicate has a receipt that links to the first run, and each payment was booked once.',
    where: to('events', { tab: 'receipts', workflow: 'billing/settle' }),
    look: ['main [aria-label="Receipts"]', 'main .table-box', 'main .page-head'],
  },
  {
    title: 'A chat that stays in order',
    text: 'Messages are accepted at once; replies are queued: one at a time per session, first come, first served. Open a session to see its queue and its shared document.',
    where: to(['flows', 'support'], { idle: 'true' }),
    look: ['main [aria-label="Sessions and other keys"]', 'main [aria-label="Actions"]'],
  },
  {
    title: 'Replaced by a newer run',
    text: 'Only the newest sync of an account matters, so it replaces the previous one. This run was cancelled by its successor, and nothing it did afterwards could be committed.',
    where: replaced,
    look: ['main .why', 'main .page-head'],
  },
  {
    title: 'A release that drains',
    text: 'The demo releases versions 1 and 2 of this assistant in turn. Each customer’s old run ends on the version it started with, and the new run waits for it. Press Release to see it drain again.',
    where: to('workflows', { open: 'assistant' }),
    look: ['.drawer [aria-label="Versions"]', '.drawer .mix', '.drawer', 'main .table-box'],
  },
  {
    title: 'A blocked reaction, and how to unblock it',
    text: 'Now and then an order is invalid: its city’s stream is blocked with the error, and all others continue. Select it and press Unblock: a preview lists the affected streams before anything changes.',
    where: to('streams', { reaction: 'invoices' }),
    look: ['main tr:has(.state.bad)', 'main .reaction'],
  },
  {
    title: 'Try it yourself',
    text: 'The dry run shows the verdicts on sixty reports, and Send shows each verdict as it arrives. Then look at the gates again.',
    where: to('try', { name: 'render-report', data: '{"tenant": "acme", "pages": 4}', n: 60, field: 'tenant', values: 'acme, globex, initech' }),
    look: ['main form', 'main [data-part="dry"]'],
  },
];
