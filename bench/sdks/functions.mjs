import cluster from 'node:cluster';
import { once } from 'node:events';

// The functions of both applications: one step, ten steps, three parallel steps and one after them.
// `step(id, body)` is the durable step of the SDK, `all` its way to await several.
export const FUNCTIONS = {
  one: async ({ n, step }) => step('only', () => n),
  ten: async ({ n, step }) => {
    let sum = n;
    for (let i = 0; i < 10; i += 1) sum = await step(`step-${i}`, () => sum + 1);
    return sum;
  },
  three: async ({ n, step, all }) => all([1, 2, 3].map((i) => step(`part-${i}`, () => n + i))),
};

let ended = 0;

/** Counts the functions that have returned. A parallel function is called several times. */
export async function counted(body) {
  const result = await body;
  ended += 1;
  return result;
}

/**
 * Serves an application in as many processes as the variable APPS says, behind one port, whose
 * connections they take in turn. Prints `ready`, and for each line of standard input the number of
 * ended functions.
 */
export async function application(serve) {
  if (cluster.isWorker) {
    // Standard input is the first process's; the end of that process disconnects the others.
    process.on('disconnect', () => process.exit());
    process.on('message', () => process.send(ended));
    await serve();
    return;
  }
  const count = Number(process.env.APPS ?? 1);
  const workers = count > 1 ? Array.from({ length: count }, () => cluster.fork()) : [];
  await (count > 1 ? Promise.all(workers.map((worker) => once(worker, 'listening'))) : serve());
  const counts = () => Promise.all(workers.map(async (worker) => {
    worker.send('count');
    const [of] = await once(worker, 'message');
    return of;
  }));
  process.stdin.on('data', async () => {
    const sum = (await counts()).reduce((all, one) => all + one, ended);
    process.stdout.write(`${sum}\n`);
  });
  process.stdin.on('end', () => process.exit());
  console.log('ready');
}
