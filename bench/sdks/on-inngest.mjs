// The application of the benchmark on the JavaScript SDK of Inngest.
import http from 'node:http';
import { Inngest } from 'inngest';
import { serve } from 'inngest/node';
import { FUNCTIONS, application, counted } from './functions.mjs';

const nothing = () => {};
const client = new Inngest({ id: 'bench', logger: { debug: nothing, info: nothing, warn: nothing, error: console.error } });
const functions = Object.entries(FUNCTIONS).map(([id, body]) => client.createFunction(
  { id, triggers: [{ event: `bench/${id}` }] },
  ({ event, step }) => counted(body({ n: event.data.n, step: (name, run) => step.run(name, run), all: (steps) => Promise.all(steps) })),
));
const server = http.createServer(serve({ client, functions }));
await application(() => new Promise((done) => { server.listen(Number(process.env.PORT), '127.0.0.1', done); }));
