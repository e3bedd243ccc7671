// Overrides of a gate: limits, pauses and closings in force, with author, reason and end; and the
// buttons that change them.
import { html, useState } from '../../lib/html.mjs';
import { del, post } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { Badge } from '../../ui/state.mjs';
import { Time, Until } from '../../ui/time.mjs';
import { ChangeForm, startsOf } from './change.mjs';
import { previewed, words } from './preview.mjs';
import { Weights } from './weights.mjs';

/**
 * @typedef {import('./gate.mjs').Gate} Gate
 * @typedef {{ target: Record<string, any>, limit?: number, perMs?: number, burst?: number, weight?: number, paused?: boolean, closedUntil?: string, reason?: string, author?: string, at: string, expiresAt?: string, drained?: boolean }} Override
 */

/** Gates that a target selects, in words. @param {Record<string, any>} target */
const whom = ({ pool, path, key, keyPrefix }) => {
  const name = pool ? 'key' : path;
  if (key !== undefined) return `${name} = ${key}`;
  if (keyPrefix !== undefined) return `${name} begins with ${keyPrefix}`;
  return pool ? 'all keys of the pool' : path ? `all values of ${path}` : 'the whole workflow';
};

/** Whether a pause without a control concerns the runs of a gate. @param {Record<string, any>} pause @param {Record<string, any>} target of the gate */
function concerns(pause, target) {
  if (pause.control !== undefined) return false;
  if (pause.path !== undefined && pause.path !== target.path) return false;
  if (pause.keyPrefix !== undefined) return String(target.key ?? '').startsWith(pause.keyPrefix);
  return pause.key === undefined || String(pause.key) === String(target.key);
}

/** Overrides of a gate, and pauses of the first starts of its runs, which close other gates. @param {Gate} gate @returns {Override[]} */
function useOverrides(gate) {
  const target = gate.overrideTarget;
  const fetched = useFetched(target ? '/overrides' : null, target?.pool ? { pool: target.pool } : { app: target?.app, workflow: target?.workflow });
  const listed = /** @type {Override[]} */ (fetched.value?.overrides ?? []);
  const own = gate.overrides ?? [];
  const is = (/** @type {Override} */ a) => (/** @type {Override} */ b) => JSON.stringify(a.target) === JSON.stringify(b.target);
  const others = listed.filter((it) => target && concerns(it.target, target) && !own.some(is(it)));
  return [...own.map((it) => ({ ...it, drained: listed.find(is(it))?.drained })), ...others];
}

/** The limit of a gate, for all keys. @param {Record<string, any>} target */
const limitOf = ({ key, ...rest }) => rest;

/** @param {{ gate: Gate }} props */
export function Overrides({ gate }) {
  const overrides = useOverrides(gate);
  const [form, setForm] = useState(/** @type {import('./change.mjs').Kind | ''} */ (''));
  const target = gate.overrideTarget;
  if (!target) return null;
  const remove = (/** @type {Record<string, any>} */ of, title = 'Remove the override?') =>
    previewed((query, ifEpoch) => del('/overrides', { target: of, ifEpoch }, query), title);
  const undo = (/** @type {Record<string, any>} */ of) => previewed((query, ifEpoch) => post('/overrides/undo', { target: of, ifEpoch }, query), 'Undo the latest change?');
  const paused = overrides.find((it) => it.paused);
  const kinds = /** @type {[import('./change.mjs').Kind, string][]} */ ([
    target.control && ['limit', 'Change limit'],
    !paused && ['pause', target.pool ? 'Pause pool' : 'Pause starts'],
    target.control !== 'rateLimit' && ['close', 'Close until'],
    target.control !== 'rateLimit' && ['purge', 'Purge queue'],
  ].filter(Boolean));
  return html`<section aria-label="Overrides"><h3>Overrides</h3>
    ${overrides.length === 0 && html`<p class="faint">None: the definition applies.</p>`}
    ${overrides.map((it) => html`<p key=${JSON.stringify(it.target)}><${Badge} tone=${it.paused || it.closedUntil ? 'bad' : 'accent'}>${words(it)}</${Badge}> ${whom(it.target)}${it.author && ` · by ${it.author}`}${it.reason && ` · ${it.reason}`}
      <span class="faint"> · set <${Time} at=${it.at} />${(it.closedUntil ?? it.expiresAt) ? html` · ends <${Until} at=${it.closedUntil ?? it.expiresAt} />` : ' · no end'}${it.drained !== undefined && (it.drained ? ' · drained' : ' · not drained yet')}</span>
      ${' '}<button type="button" class="quiet" onClick=${() => undo(it.target)}>Undo</button>
      <button type="button" class="quiet" onClick=${() => remove(it.target)}>Remove</button></p>`)}
    ${form ? html`<${ChangeForm} key=${form} kind=${form} ...${{ gate, target, overrides }} done=${() => setForm('')} />`
      : html`<p class="actions">
        ${kinds.map(([kind, text]) => html`<button type="button" onClick=${() => setForm(kind)}>${text}</button>`)}
        ${paused && html`<button type="button" onClick=${() => remove(paused.target, 'Resume?')}>Resume</button>`}
        ${overrides.length === 0 && html`<button type="button" title="restores the override before the latest change of this key" onClick=${() => undo(target.control || target.pool ? target : startsOf(target))}>Undo latest change</button>`}
      </p>`}
    ${gate.fairBy && html`<${Weights} target=${limitOf(target)} by=${gate.fairBy} title=${html`<h3>Turns for each ${gate.fairBy}</h3>`} />`}</section>`;
}
