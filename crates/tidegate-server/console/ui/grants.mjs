import { html } from '../lib/html.mjs';
import { now, second } from '../lib/clock.mjs';
import { plural, span } from '../lib/format.mjs';
import { lasting } from './controls.mjs';

/** Number of upcoming grants that are drawn. */
const SHOWN = 9;
/** Below this interval in ms, grants are drawn as an evenly moving comb, not one by one. */
const FAST = 1000;

/** Short time left, in whole seconds, since it is updated once a second. @param {number} ms */
export const soon = (ms) => (ms < 10_000 ? `${Math.max(1, Math.ceil(ms / 1000))} s` : span(ms));

/**
 * Meter: tokens that are available now, and the times of the next grants, moving towards now.
 *
 * @param {{ gate: { limit?: number, perMs?: number, burst?: number, tokens?: number, nextAt?: string, control: string, line?: { count: number } } }} props
 */
export function Grants({ gate }) {
  void second.value;
  const { limit = 1, perMs = 1000, burst = 1, tokens = 0, nextAt } = gate;
  const every = perMs / limit;
  const horizon = every * SHOWN;
  const waits = gate.line?.count ?? 0;
  const from = nextAt ? new Date(nextAt).getTime() : now();
  // If a token is left, the next grant is possible now, and the first one to wait for is one
  // interval later.
  const first = tokens > 0 && from <= now() ? from + every : from;
  const moments = tokens >= burst && waits === 0 ? [] : Array.from({ length: SHOWN }, (_, i) => first + i * every);
  return html`<span class="grants">
    <span class="pips" role="img" aria-label=${`${tokens} of ${burst} tokens left`} title=${`${tokens} of ${burst} can pass now`}>
      ${burst <= 12 ? Array.from({ length: burst }, (_, i) => html`<i class=${i < tokens ? 'on' : ''}></i>`) : html`<b class="num">${tokens}</b>/${burst}`}</span>
    <span class="grants-line" aria-hidden="true">${every < FAST ? html`<${Comb} every=${every} waits=${moments.length && waits} />` : moments.map((at, i) => html`<i key=${Math.round(at / every)} class=${i < waits ? 'used' : ''}
      style=${{ translate: `${(Math.max(0, (at - now() - 1000) / horizon) * 100).toFixed(2)}cqw` }}></i>`)}</span>
    <span class="num grants-text">${words(gate, every, first - now(), from + (waits - 1) * every - now())}</span>
  </span>`;
}

/** @param {{ every: number, waits: number }} props */
const Comb = ({ every, waits }) =>
  html`<span class=${`comb${waits > 0 ? ' goes' : ''}`} style=${{ animationDuration: `${every}ms` }}>${Array.from({ length: SHOWN + 1 }, (_, i) =>
    html`<i class=${i < waits ? 'used' : ''} style=${{ left: `${(i * 100) / SHOWN}%` }}></i>`)}</span>`;

/** @param {{ control: string, burst?: number, tokens?: number, line?: { count: number } }} gate @param {number} every @param {number} next @param {number} last */
function words({ control, burst = 1, tokens = 0, line }, every, next, last) {
  const pace = `one every ${lasting(Math.round(every))}`;
  const waits = line?.count ?? 0;
  if (waits > 0 && every < 2000) return `${pace}, last of ${plural(waits, 'run')} in ${soon(last)}`;
  if (waits > 0) return `next in ${soon(next)}, ${pace}`;
  if (tokens >= burst) return control === 'throttle' ? 'queue empty: the next run starts at once' : 'nothing used';
  return tokens > 0 ? `${tokens} left, refills ${pace}` : `none left, next in ${soon(next)}`;
}
