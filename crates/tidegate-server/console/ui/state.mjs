import { html } from '../lib/html.mjs';

/** Colour of each run status, verdict and other status word. */
const TONES = /** @type {Record<string, string>} */ ({
  running: 'go', started: 'go', start: 'go', inFlight: 'go',
  queued: 'wait', buffered: 'wait', coalesced: 'wait', debouncing: 'wait', batching: 'wait',
  waiting: 'idle', paused: 'still', deduped: 'still', skipped: 'still', ignored: 'still',
  completed: 'good', failed: 'bad', rejected: 'bad', blocked: 'bad', dropped: 'bad', stranded: 'bad',
  cancelled: 'still', replaced: 'idle', stopping: 'still',
});

/** @param {string} word */
export const toneOf = (word) => TONES[word] ?? 'still';

/** Status or verdict: a coloured dot and the word. @param {{ state: string, title?: string }} props */
export function State({ state, title }) {
  return html`<span class=${`state ${TONES[state] ?? 'still'}`} title=${title}>${state}</span>`;
}

/** Badge. @param {{ tone?: string, title?: string, children?: any }} props */
export function Badge({ tone = '', title, children }) {
  return html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;
}
