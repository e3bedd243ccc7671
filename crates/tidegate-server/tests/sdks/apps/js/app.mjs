// Acceptance application on the JavaScript SDK: every feature that the SDK has, in small functions.
//
//   SDK=inngest4 LOG=FILE [PORT=0] [APP_ID=acceptance] node app.mjs
//
// Prints its port. The log has one JSON line for each function body and each execution of a step.
// The rig controls the application at /rig and lets it send events at /send.
import http from 'node:http';
import { callNumber, client, functions, knobs } from './context.mjs';
import { send } from './steps.mjs';
import './errors.mjs';
import './waiting.mjs';
import './parallel.mjs';
import './controls.mjs';

const { serve } = await import(`${process.env.SDK}/node`);
const inngest = serve({ client, functions });

const server = http.createServer(async (request, response) => {
  const { pathname } = new URL(request.url, 'http://app');
  if (pathname === '/api/inngest') return callNumber.run(Number(request.headers['x-rig-call']), () => inngest(request, response));
  const answer = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  try {
    const chunks = await collect(request);
    const body = JSON.parse(Buffer.concat(chunks).toString() || '{}');
    if (pathname === '/rig') return answer(200, Object.assign(knobs, body));
    if (pathname === '/send') return answer(200, { ids: await send(body) });
    return answer(404, { error: 'no such path' });
  } catch (error) {
    return answer(500, { error: error.message });
  }
});
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => console.log(`listening on ${server.address().port}`));

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}
