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

/** Prints the number of ended functions for each line of standard input. */
export function answerCounts() {
  process.stdin.on('data', () => process.stdout.write(`${ended}\n`));
  process.stdin.on('end', () => process.exit());
}
