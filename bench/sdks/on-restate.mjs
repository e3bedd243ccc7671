// The application of the benchmark on the SDK of Restate.
import * as restate from '@restatedev/restate-sdk';
import { FUNCTIONS, application, counted } from './functions.mjs';

const handlers = Object.fromEntries(Object.entries(FUNCTIONS).map(([id, body]) => [
  id,
  (ctx, { n }) => counted(body({ n, step: (name, run) => ctx.run(name, run), all: (steps) => restate.RestatePromise.all(steps) })),
]));
const services = [restate.service({ name: 'bench', handlers })];
await application(() => restate.serve({ services, port: Number(process.env.PORT) }));
