// Position of a reaction in a stream.
import { html } from '../../lib/html.mjs';
import { now, second } from '../../lib/clock.mjs';
import { plural, span } from '../../lib/format.mjs';
import { Fill } from '../../ui/fill.mjs';
import { Until } from '../../ui/time.mjs';

/**
 * @typedef {{ reaction: string, stream: string, version: number, lag: number, failures: number, claims: number,
 *   blocked: string | null, error: string | null, holder: string | null, leaseEnd: string | null, dueAt: string | null }} Place
 * @typedef {{ name: string, source: string, maxRetries: number, blockOnError: boolean, leaseMs: number, batch: number,
 *   maxLostLeases: number }} Reaction
 */

/** @param {Place} place @returns {string} */
export const placeId = (place) => JSON.stringify([place.reaction, place.stream]);

/** @param {Place} place @returns {[tone: string, word: string]} */
function stateOf(place) {
  if (place.blocked) return ['bad', 'blocked'];
  if (place.holder && place.leaseEnd && Date.parse(place.leaseEnd) > now()) return ['go', 'handling'];
  if (place.failures > 0) return ['wait', 'retrying'];
  return place.lag > 0 ? ['wait', 'behind'] : ['good', 'up to date'];
}

/** @param {{ place: Place }} props */
export function PlaceState({ place }) {
  void second.value;
  const [tone, word] = stateOf(place);
  return html`<span class=${`state ${tone}`} title=${place.blocked ?? undefined}>${word}</span>`;
}

/** What holds a position back: the lease holder, the next retry, or the error. @param {{ place: Place }} props */
export function Held({ place }) {
  void second.value;
  const error = place.error ?? place.blocked;
  const later = place.dueAt && !place.blocked && !place.holder && Date.parse(place.dueAt) > now() && html`<span class="soft">retry <${Until} at=${place.dueAt} /></span> `;
  const over = place.leaseEnd && Date.parse(place.leaseEnd) <= now();
  const holder = place.holder && html`engine <code title=${place.holder}>${place.holder.slice(-6)}</code> <span class="faint">${over ? 'lease expired' : html`lease expires <${Until} at=${place.leaseEnd} />`}</span> `;
  return html`${holder}${later}${error && html`<span class="bad-text" title=${error}>${error}</span>`}`;
}

/** @param {{ place: Place }} props */
export const Progress = ({ place }) =>
  html`<${Fill} value=${place.version + 1} of=${place.version + place.lag + 1} tone=${place.blocked ? 'bad' : place.lag > 0 ? '' : 'calm'} label="events handled" />`;

/** @param {Reaction} it */
export function inWords(it) {
  const tries = it.maxRetries === 0 ? 'at the first failure' : `after ${plural(it.maxRetries + 1, 'failure')}`;
  return [
    it.blockOnError ? `blocks a stream ${tries}` : 'retries forever',
    `handles up to ${plural(it.batch, 'event')} at a time`,
    `lease ${span(it.leaseMs)}`,
  ].join(', ');
}
