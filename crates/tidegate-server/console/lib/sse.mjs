// Server-sent events by fetch: `EventSource` can show no key.
import { address, locked, who } from './api.mjs';

const SOONEST = 500;
const LATEST = 10_000;

/**
 * Reads along until it is stopped; a lost connection is taken up again behind the last id.
 *
 * @param {string} path
 * @param {{ query?: Record<string, unknown>, on: (event: string, data: any, id: string) => void,
 *   connected?: (yes: boolean) => void, until?: (event: string) => boolean }} options
 *   `until` says after which event nothing more comes
 * @returns {() => void} stops it
 */
export function follow(path, { query, on, connected = () => {}, until = () => false }) {
  const stop = new AbortController();
  let last = '';
  let pause = SOONEST;
  let over = false;

  async function once() {
    /** @type {Record<string, string>} */
    const headers = { ...who(), accept: 'text/event-stream' };
    if (last) headers['last-event-id'] = last;
    const response = await fetch(address(path, query), { headers, signal: stop.signal });
    if (response.status === 401) locked.value = 'show a key';
    // Asking again does not help where the server has understood and refused.
    if (response.status >= 400 && response.status < 500) over = response.status !== 429;
    if (!response.ok || !response.body) throw new Error(`answered ${response.status}`);
    connected(true);
    pause = SOONEST;
    for await (const { event, data, id } of messages(response.body)) {
      if (id) last = id;
      on(event, data ? JSON.parse(data) : null, id);
      if (until(event)) {
        over = true;
        return;
      }
    }
  }

  (async () => {
    while (!over && !stop.signal.aborted) {
      try {
        await once();
      } catch {
        // Told by `connected`.
      }
      if (over || stop.signal.aborted) break;
      connected(false);
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, LATEST);
    }
  })();
  return () => stop.abort();
}

/** @param {ReadableStream<Uint8Array>} body */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let message = { event: 'message', data: '', id: '' };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (line === '') {
          if (message.data || message.event !== 'message') yield message;
          message = { event: 'message', data: '', id: '' };
          continue;
        }
        const colon = line.indexOf(':');
        if (colon === 0) continue;
        const name = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (name === 'data') message.data += message.data ? `\n${text}` : text;
        if (name === 'event') message.event = text;
        if (name === 'id') message.id = text;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
