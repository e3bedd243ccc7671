// Server-sent events over fetch: `EventSource` cannot send an API key.
import { address, epoch, lock, who } from './api.mjs';
import { parse } from './json.mjs';

const SOONEST = 500;
const LATEST = 10_000;
/** Hidden tabs close their connections after this time, in ms: a browser has six per host for all tabs. */
const HIDDEN = 4000;
/** Read timeout in ms: the server sends at least a comment every 15 s. */
const SILENT = 40_000;

/**
 * Reads a stream until it is stopped; reconnects after the last id when the connection is lost.
 *
 * @param {string} path
 * @param {{ query?: Record<string, unknown>, on: (event: string, data: any, id: string) => void,
 *   connected?: (yes: boolean) => void, until?: (event: string) => boolean }} options
 *   `until`: whether this event is the last one
 * @returns {() => void} closes the stream
 */
export function follow(path, { query, on, connected = () => {}, until }) {
  let attempt = new AbortController();
  let last = '';
  let pause = SOONEST;
  let over = false;
  let away = false;
  let wake = () => {};
  /** @param {number} [ms] timeout; without it only `wake` resolves */
  const woken = (ms) =>
    new Promise((done) => {
      wake = () => done(null);
      if (ms !== undefined) setTimeout(wake, ms);
    });
  /** @type {number | undefined} */
  let hiding;

  async function once() {
    const { signal } = (attempt = new AbortController());
    /** @type {number | undefined} */
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => attempt.abort(), SILENT);
    };
    heard();
    try {
      /** @type {Record<string, string>} */
      const headers = { ...who(), accept: 'text/event-stream' };
      const sent = epoch.peek();
      if (last) headers['last-event-id'] = last;
      const response = await fetch(address(path, query), { headers, signal });
      // The caller stopped the stream while the response was arriving.
      if (signal.aborted) return;
      if (!response.ok || !response.body) return refused(response.status, sent);
      connected(true);
      pause = SOONEST;
      for await (const { event, data, id } of messages(response.body, heard)) {
        // The caller stopped the stream: drop the messages that were already received.
        if (signal.aborted) return;
        if (id) last = id;
        on(event, data ? parse(data) : null, id);
        if (until?.(event)) {
          over = true;
          return;
        }
      }
    } finally {
      clearTimeout(silence);
    }
  }

  /** @param {number} status @param {number} sent epoch of the request */
  function refused(status, sent) {
    if (status === 401 && lock(sent, 'enter an API key')) over = true;
    // 404 and 410 are final: the run was deleted. Other 4xx may go away, but not soon, so the next
    // attempt waits for the longest pause.
    if (until && (status === 404 || status === 410)) over = true;
    if (status >= 400 && status < 500 && status !== 429) pause = LATEST;
    if (over) connected(false);
  }

  function turned() {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        away = true;
        attempt.abort();
      }, HIDDEN);
      return;
    }
    away = false;
    wake();
  }

  function end() {
    over = true;
    document.removeEventListener('visibilitychange', turned);
    clearTimeout(hiding);
    attempt.abort();
    wake();
  }

  document.addEventListener('visibilitychange', turned);
  turned();
  (async () => {
    while (!over) {
      try {
        await once();
      } catch {
        // The loop below reports the lost connection with `connected(false)`.
      }
      if (over) break;
      // A hidden tab is not reported as disconnected: it reconnects before the reader can see it.
      if (!away) {
        connected(false);
        await woken(pause);
      }
      while (away && !over) await woken();
      pause = Math.min(pause * 2, LATEST);
    }
    end();
  })();
  return end;
}

/** @param {ReadableStream<Uint8Array>} body @param {() => void} heard */
async function* messages(body, heard) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  let message = { event: 'message', data: '', id: '' };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
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
