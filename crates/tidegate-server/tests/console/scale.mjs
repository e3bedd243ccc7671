// Load measurement: response and render times with 100,000 runs at 10,000 gates and 1,000 events
// per second. It prints numbers and asserts nothing.
import { performance } from 'node:perf_hooks';
import { closeBrowser, look, serve, target } from './rig.mjs';

const [RUNS, GATES, A_SECOND] = [100_000, 10_000, 1000];
const PAGES = ['overview', 'runs', 'events', 'gates', 'workflows'];
const QUESTIONS = [
  '/runs?limit=50', '/runs?state=queued&limit=50', '/runs/stats', '/flow-state', '/gates?limit=60',
  '/gates?key=k77&limit=60', '/events?limit=50', '/receipts?limit=50', '/workflows',
];

const service = await target();
const server = await serve(
  `[[workflow]]
name = "load"
url = "${service.url}"
concurrency = { limit = 1, key = "k" }

[[workflow]]
name = "tick"
url = "${service.url}"
rateLimit = { limit = 50, perMs = 1000 }
`,
  process.env.STORE,
);

/** @param {string} name @param {number} count @param {(n: number) => unknown} data */
async function send(name, count, data) {
  const events = Array.from({ length: count }, (_, n) => ({ name, data: data(n) }));
  const answer = await fetch(`${server.url}/events`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(events) });
  if (!answer.ok) throw new Error(await answer.text());
}

/** @param {number[]} all @param {number} part */
const at = (all, part) => all.toSorted((a, b) => a - b)[Math.floor((all.length - 1) * part)].toFixed(0);

for (let n = 0; n < RUNS; n += 1000) await send('load', 1000, (i) => ({ k: `k${(n + i) % GATES}` }));
console.log(`${RUNS} runs on ${GATES} gates loaded; now ${A_SECOND} events per second`);
const began = performance.now();
let sent = 0;
const timer = setInterval(() => {
  const due = Math.floor(((performance.now() - began) * A_SECOND) / 1000) - sent;
  sent += due;
  if (due > 0) send('tick', Math.min(due, 1000), (n) => ({ n })).catch((error) => console.log(String(error)));
}, 100);

console.log(`\n${'question'.padEnd(32)} median, ms   90 %`);
for (const question of QUESTIONS) {
  const took = [];
  for (let n = 0; n < 20; n++) {
    const start = performance.now();
    await (await fetch(server.url + question)).text();
    took.push(performance.now() - start);
  }
  console.log(`${question.padEnd(32)} ${at(took, 0.5).padStart(10)} ${at(took, 0.9).padStart(6)}`);
}

console.log(`\n${'page'.padEnd(12)} shown after, ms   between frames: median, 95 %, longest`);
for (const name of PAGES) {
  const seen = await look(server.url);
  const start = performance.now();
  await seen.go(`/${name}`);
  const shown = performance.now() - start;
  const gaps = await seen.page.evaluate(
    () =>
      new Promise((/** @type {(gaps: number[]) => void} */ done) => {
        const all = /** @type {number[]} */ ([]);
        let last = performance.now();
        const end = last + 5000;
        requestAnimationFrame(function frame(now) {
          all.push(now - last);
          last = now;
          if (now < end) requestAnimationFrame(frame);
          else done(all.slice(1));
        });
      }),
  );
  console.log(`${name.padEnd(12)} ${shown.toFixed(0).padStart(15)}   ${[0.5, 0.95, 1].map((part) => at(gaps, part).padStart(6)).join(' ')}`);
  await seen.close();
}
clearInterval(timer);
console.log(`\n${sent} events sent meanwhile, ${((sent / (performance.now() - began)) * 1000).toFixed(0)} per second`);
await closeBrowser();
service.close();
await server.stop();
process.exit(0);
