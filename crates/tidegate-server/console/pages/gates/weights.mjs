// Weights of the values that take turns at a limit: overrides in force, and the form that sets one.
import { html, useState } from '../../lib/html.mjs';
import { del, post, put } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { Badge } from '../../ui/state.mjs';
import { Time, Until } from '../../ui/time.mjs';
import { ENDS, endOf } from './ends.mjs';
import { previewed } from './preview.mjs';

/** @typedef {import('./override.mjs').Override} Override @typedef {Record<string, any>} Target */

/** Whether an override is of a value's weight at this limit. @param {Override} it @param {Target} target */
const isAt = ({ target: of }, target) => of.value !== undefined && of.control === target.control && of.path === target.path && of.span === target.span;

/** Overridden weights of a limit with `fair`. @param {{ target: Target, by: string, title?: any }} props `target`: the limit without a key; `by`: the path of its values */
export function Weights({ target, by, title }) {
  const fetched = useFetched('/overrides', target.pool ? { pool: target.pool } : { app: target.app, workflow: target.workflow });
  const weights = /** @type {Override[]} */ (fetched.value?.overrides ?? []).filter((it) => isAt(it, target));
  const [open, setOpen] = useState(false);
  const undo = (/** @type {Target} */ of) => previewed((query, ifEpoch) => post('/overrides/undo', { target: of, ifEpoch }, query), 'Undo the latest change?').then(fetched.again);
  const remove = (/** @type {Target} */ of) => previewed((query, ifEpoch) => del('/overrides', { target: of, ifEpoch }, query), 'Remove the weight?').then(fetched.again);
  return html`<section class="turns" aria-label="Weights">${title}
    ${weights.map((it) => html`<p key=${it.target.value}><${Badge} tone="accent">weight ${it.weight}</${Badge}> ${by} = ${it.target.value}${it.author && ` · by ${it.author}`}${it.reason && ` · ${it.reason}`}
      <span class="faint"> · set <${Time} at=${it.at} />${it.expiresAt ? html` · ends <${Until} at=${it.expiresAt} />` : ' · no end'}</span>
      ${' '}<button type="button" class="quiet" onClick=${() => undo(it.target)}>Undo</button>
      <button type="button" class="quiet" onClick=${() => remove(it.target)}>Remove</button></p>`)}
    ${open ? html`<${Form} ...${{ target, by }} done=${() => { setOpen(false); fetched.again(); }} />`
      : html`<p class="actions"><button type="button" onClick=${() => setOpen(true)}>Change weight</button></p>`}</section>`;
}

/** @param {{ target: Target, by: string, done: () => void }} props */
function Form({ target, by, done }) {
  const [given, setGiven] = useState(/** @type {Record<string, string>} */ ({ value: '', weight: '', end: '', at: '', reason: '' }));
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setGiven({ ...given, [name]: event.target.value });
  const until = endOf(given.end, given.at);
  const weight = Number(given.weight);
  const ready = given.value !== '' && weight >= 1 && weight <= 1000 && until !== '';
  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    const body = { target: { ...target, value: given.value }, weight, reason: given.reason || undefined, expiresAt: until };
    if (await previewed((query, ifEpoch) => put('/overrides', { ...body, ifEpoch }, query), 'Override the weight?')) done();
  }
  return html`<form class="change-form" aria-label="Change weight" onSubmit=${submit}>
    <div class="filters">
      <label class="field"><span>Value of ${by}</span><input autofocus required spellcheck=${false} placeholder="acme" value=${given.value} onInput=${set('value')} /></label>
      <label class="field"><span>Weight, 1 to 1000</span><input type="number" min="1" max="1000" step="1" required value=${given.weight} onInput=${set('weight')} /></label>
      <label class="field"><span>End</span><select onChange=${set('end')}>${ENDS.map(([value, text]) => html`<option value=${value} selected=${value === given.end}>${text}</option>`)}</select></label>
      ${given.end === 'at' && html`<label class="field"><span>Time</span><input type="datetime-local" required value=${given.at} onInput=${set('at')} /></label>`}
      <label class="field"><span>Reason</span><input value=${given.reason} maxlength="500" placeholder="shown by why" onInput=${set('reason')} /></label>
    </div>
    <p class="faint">A weight applies to turns that are given from now on. Others keep the weights of the definition.</p>
    <p class="actions"><button class="primary" disabled=${!ready}>Preview</button><button type="button" onClick=${done}>Cancel</button></p>
  </form>`;
}
