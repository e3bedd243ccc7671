// The wire between the server and the application: two proxies that record every request.
import http from 'node:http';
import { once } from 'node:events';

const agent = new http.Agent({ keepAlive: true, maxSockets: 512 });

/**
 * Proxy that records requests and answers, and passes the bytes on as they are. The header
 * `x-rig-call` has the number of the entry, which the application writes into its log. `target` is the
 * base URL of the other side, read at each request. `intercept` may answer by itself:
 * `{status, headers, body}`, or choose another target: `{target}`.
 */
export class Wire {
  entries = [];
  target = null;
  #count = 0;
  intercept = () => undefined;

  static async start() {
    const wire = new Wire();
    wire.server = http.createServer((request, response) => wire.#pass(request, response));
    wire.server.keepAliveTimeout = 60_000;
    wire.server.listen(0, '127.0.0.1');
    await once(wire.server, 'listening');
    wire.url = `http://127.0.0.1:${wire.server.address().port}`;
    return wire;
  }

  async #pass(request, response) {
    const text = await read(request);
    const entry = { at: Date.now(), method: request.method, path: request.url, headers: request.headers, text, body: json(text) };
    entry.number = this.#count += 1;
    this.entries.push(entry);
    try {
      const own = await this.intercept(entry);
      const answer = own?.status ? own : await forward(own?.target ?? this.target, entry, [...request.rawHeaders, 'x-rig-call', String(entry.number)]);
      Object.assign(entry, { end: Date.now(), status: answer.status, answer: json(answer.body), answerText: answer.body, answerHeaders: answer.headers });
      response.writeHead(answer.status, answer.rawHeaders ?? answer.headers ?? {}).end(answer.body);
    } catch (error) {
      Object.assign(entry, { end: Date.now(), failure: error.message });
      // The caller sees a connection that breaks, as it would without the proxy.
      response.destroy();
    }
  }

  async stop() {
    this.server.close();
    this.server.closeAllConnections();
  }
}

function forward(target, { method, path, text }, rawHeaders) {
  return new Promise((done, fail) => {
    const request = http.request(new URL(path, target), { method, agent, headers: pairs(rawHeaders, ['connection']) });
    request.once('error', fail);
    request.once('response', (answer) => {
      read(answer).then((body) => done({
        status: answer.statusCode,
        headers: answer.headers,
        rawHeaders: pairs(answer.rawHeaders, ['connection', 'transfer-encoding', 'keep-alive']),
        body,
      }), fail);
    });
    request.end(text);
  });
}

/** Raw headers as an object, without those of the connection; repeated ones as a list. */
function pairs(raw, without) {
  const headers = {};
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i].toLowerCase();
    if (without.includes(name)) continue;
    headers[name] = name in headers ? [headers[name], raw[i + 1]].flat() : raw[i + 1];
  }
  return headers;
}

async function read(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
