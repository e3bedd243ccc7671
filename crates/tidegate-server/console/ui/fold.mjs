import { html } from '../lib/html.mjs';
import { now, second } from '../lib/clock.mjs';
import { exact } from '../lib/format.mjs';
import { soon } from './grants.mjs';

/**
 * Debounce window or batch buffer: fill level (for a buffer) and time left, as bars.
 *
 * @param {{ batch: boolean, pending: number, maxSize?: number, until?: string | null, wholeMs?: number }} props
 */
export function Fold({ batch, pending, maxSize, until, wholeMs }) {
  void second.value;
  const left = until ? new Date(until).getTime() - now() : 0;
  // The position of one second later: the CSS transition takes one second to reach it.
  const part = wholeMs && until ? Math.max(0, Math.min(1, (left - 1000) / wholeMs)) : 0;
  const full = maxSize ? Math.min(1, pending / maxSize) : 0;
  const does = batch ? 'flushes' : 'fires';
  return html`<span class="fold-state" title=${until ? `${does} at ${exact(until)}` : undefined}>
    <span class="bars">
      ${maxSize && html`<span class="bar wait" role="img" aria-label=${`${pending} of ${maxSize} collected`}><span style=${{ transform: `scaleX(${full})` }}></span></span>`}
      ${wholeMs && html`<span class="bar idle timed" role="img" aria-label="time left"><span style=${{ transform: `scaleX(${part.toFixed(4)})` }}></span></span>`}
    </span>
    <span class="num">${maxSize ? `${pending} of ${maxSize}, ` : ''}${!until ? 'due: waiting for a running run' : left <= 0 ? (maxSize ? 'due now' : `${does} now`) : `${maxSize ? '' : `${does} `}in ${soon(left)}`}</span>
  </span>`;
}
