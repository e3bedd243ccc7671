// Overrides of a gate: the limit in force, its author and end; set, pause, resume, remove, undo.
import { html, useState } from '../../lib/html.mjs';
import { del, post, put } from '../../lib/api.mjs';
import { confirm } from '../../ui/confirm.mjs';
import { Time } from '../../ui/time.mjs';
import { act } from '../../ui/toast.mjs';

/**
 * @typedef {import('./gate.mjs').Gate} Gate
 * @typedef {{ target: Record<string, any>, limit?: number, perMs?: number, burst?: number, paused?: boolean, closedUntil?: string, reason?: string, author?: string, at: string, expiresAt?: string }} Override
 */

/** Fields of an override in words. @param {Override | undefined} it */
const words = (it) =>
  it === undefined
    ? 'no override'
    : [it.limit && `limit ${it.limit}`, it.perMs && `per ${it.perMs} ms`, it.burst && `burst ${it.burst}`, it.paused === true && 'paused', it.paused === false && 'not paused', it.closedUntil && 'closed'].filter(Boolean).join(', ');

/** Gates that a target selects, in words. @param {Record<string, any>} target */
const whom = ({ pool, path, key, keyPrefix }) => {
  const name = pool ? 'key' : path;
  if (key !== undefined) return `${name} = ${key}`;
  if (keyPrefix !== undefined) return `${name} begins with ${keyPrefix}`;
  return pool ? 'all keys of the pool' : path ? `all values of ${path}` : 'whole workflow';
};

/** Target of the first starts of the runs of a target, or of all entries into its pool. @param {Record<string, any>} target */
const starts = ({ app, workflow, pool, path, key, keyPrefix }) => ({ app, workflow, pool, path, key, keyPrefix });

/** Effect of a change on the runs that wait, in words. @param {{ enter: number, wait: number, atLeast?: boolean } | undefined} it */
const effect = (it) => it && `Of the waiting runs ${it.enter}${it.atLeast ? ' or more' : ''} enter at once, ${it.wait} go on waiting.`;

/** Asks for confirmation with a preview, then makes the change under the epoch of the preview.
 *  @param {(query: Record<string, unknown>, ifEpoch?: number) => Promise<any>} change @param {string} title */
async function previewed(change, title) {
  const seen = await act(() => change({ dryRun: true }), (it) => `Now: ${words(it.before)}. After: ${words(it.after)}.`);
  if (!seen) return;
  const text = html`<p>Now: ${words(seen.before)}.</p><p>After: ${words(seen.after)}.</p>${seen.effect && html`<p>${effect(seen.effect)}</p>`}`;
  if (await confirm({ title, text, yes: 'Apply' })) await act(() => change({}, seen.epoch), 'Override changed. Undo it in the same place.');
}

/** @param {{ gate: Gate & { overrides?: Override[], overrideTarget?: Record<string, any> } }} props */
export function Overrides({ gate }) {
  const { overrides = [], overrideTarget: target } = gate;
  const [limit, setLimit] = useState('');
  const [reason, setReason] = useState('');
  if (!target) return null;
  const body = (/** @type {Record<string, unknown>} */ fields, /** @type {Record<string, any>} */ of, /** @type {number | undefined} */ ifEpoch) =>
    ({ target: of, ...fields, reason: reason || undefined, ifEpoch });
  const set = (/** @type {Record<string, unknown>} */ fields, /** @type {Record<string, any>} */ of, /** @type {string} */ title) =>
    previewed((query, ifEpoch) => put('/overrides', body(fields, of, ifEpoch), query), title);
  const remove = (/** @type {Record<string, any>} */ of) => previewed((query, ifEpoch) => del('/overrides', { target: of, ifEpoch }, query), 'Remove the override?');
  const undo = (/** @type {Record<string, any>} */ of) => previewed((query, ifEpoch) => post('/overrides/undo', { target: of, ifEpoch }, query), 'Undo the latest change?');
  const of = starts(target);
  const paused = overrides.find((it) => it.paused);
  const pauses = target.pool ? ['Pause all entries into the pool?', 'Pause pool'] : ['Pause first starts?', 'Pause starts'];
  return html`<section aria-label="Overrides"><h3>Overrides</h3>
    ${overrides.length === 0 && html`<p class="faint">None: the definition's limit applies.</p>`}
    ${overrides.map((it) => html`<p key=${JSON.stringify(it.target)}><b>${words(it)}</b> for ${whom(it.target)}${it.author && ` by ${it.author}`}, set <${Time} at=${it.at} />${(it.closedUntil ?? it.expiresAt) && html`, until <${Time} at=${it.closedUntil ?? it.expiresAt} />`}${it.reason && `: ${it.reason}`}
      ${' '}<button type="button" class="quiet" onClick=${() => undo(it.target)}>Undo</button>
      <button type="button" class="quiet" onClick=${() => remove(it.target)}>Remove</button></p>`)}
    <p class="actions">
      <input aria-label="Reason" placeholder="reason" value=${reason} onInput=${(/** @type {any} */ e) => setReason(e.target.value)} />
      ${target.control && html`<input aria-label="New limit" type="number" min="1" placeholder="limit" value=${limit} onInput=${(/** @type {any} */ e) => setLimit(e.target.value)} />
      <button type="button" disabled=${!(Number(limit) >= 1)} onClick=${() => set({ limit: Number(limit) }, target, 'Override the limit?')}>Set limit</button>`}
      ${paused ? html`<button type="button" onClick=${() => remove(paused.target)}>Resume</button>`
        : html`<button type="button" onClick=${() => set({ paused: true }, of, pauses[0])}>${pauses[1]}</button>`}
    </p></section>`;
}
