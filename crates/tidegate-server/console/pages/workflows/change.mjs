import { html, useState } from '../../lib/html.mjs';
import { path, put } from '../../lib/api.mjs';
import { table } from '../../lib/controls.mjs';
import { plural } from '../../lib/format.mjs';
import { number, parse } from '../../lib/json.mjs';
import { controlsOf, lasting } from '../../ui/controls.mjs';
import { say } from '../../ui/toast.mjs';

/** @typedef {import('../../ui/controls.mjs').Control} Control */

const LABELS = /** @type {Record<string, string>} */ ({
  limit: 'limit', perMs: 'per, ms', burst: 'burst', periodMs: 'period, ms', maxWaitMs: 'max wait, ms',
  maxSize: 'max size', timeoutMs: 'timeout, ms', maxBytes: 'max bytes', shiftMs: 'shift, ms',
  startWithinMs: 'start within, ms', withinMs: 'within, ms', 'queue.maxWaiting': 'max waiting', cost: 'cost',
  'fair.defaultWeight': 'default weight', 'adaptive.min': 'adaptive, min', 'adaptive.max': 'adaptive, max',
});

/** Copy of a definition with other numbers in one control. @param {any} definition @param {Control} control @param {Record<string, string>} given */
function changed(definition, { at, numbers }, given) {
  // Not `structuredClone`: it would lose digits of large numbers.
  const next = parse(JSON.stringify(definition));
  delete next.version;
  const it = at.reduce((part, name) => part[name], next);
  for (const name of numbers) {
    const [part, inner] = name.split('.');
    if (given[name] === '' && part === 'fair') it.fair = without(it.fair, inner);
    else if (given[name] === '') delete it[part];
    else it[part] = inner ? { ...it[part], [inner]: number(given[name]) } : number(given[name]);
  }
  return next;
}

/** @param {Record<string, any>} it @param {string} field */
const without = (it, field) => Object.fromEntries(Object.entries(it).filter(([name]) => name !== field));

/** Number of a control as text; of an inner field by `part.inner`. @param {any} it @param {string} name */
const valueAt = (it, name) => String(name.split('.').reduce((part, field) => part?.[field], it) ?? '');

/** Form that changes the numbers of a control. @param {{ control: Control, workflow: any, done: () => void, close: () => void }} props */
export function Change({ control, workflow, done, close }) {
  const { it, numbers, needed, at } = control;
  const [given, setGiven] = useState(() => Object.fromEntries(numbers.map((name) => [name, valueAt(it, name)])));
  const [refused, setRefused] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const next = changed(workflow.definition, control, given);
  const same = numbers.every((name) => given[name] === valueAt(it, name));
  const field = at[0] ?? numbers[0];
  const preview = controlsOf({ [field]: next[field] }, table.value).find((one) => one.at.join() === at.join());
  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    try {
      const told = await put(path`/workflows/${workflow.name}`, next, { app: workflow.app });
      const older = told.released?.older ?? 0;
      say(told.unchanged ? 'No change.' : `Released version ${told.version} of ${workflow.name}${older > 0 ? `; ${plural(older, 'older run continues', 'older runs continue')}` : ''}.`);
      done();
    } catch (error) {
      setRefused(error);
      setBusy(false);
    }
  }
  return html`<form class="change-form" onSubmit=${submit}>
    <div class="filters">${numbers.map((name, i) => html`<label class="field"><span>${LABELS[name] ?? name}</span>
      <input type="number" min=${name === 'shiftMs' ? undefined : name === 'queue.maxWaiting' ? 0 : 1} step="1" autofocus=${i === 0} required=${needed.includes(name)} value=${given[name]} placeholder="not set"
        onInput=${(/** @type {any} */ event) => setGiven({ ...given, [name]: event.target.value })} />
      <span class="hint">${name.endsWith('Ms') && given[name] ? lasting(Number(given[name])) : ' '}</span></label>`)}</div>
    <p class="preview"><span class="faint">After release: </span><b>${preview?.sentence}.</b></p>
    ${refused && html`<div class="refused" role="alert">${(refused.told?.problems ?? [{ message: refused.message }]).map((/** @type {any} */ it) => html`<p>${it.field ? html`<code>${it.field}</code> ` : ''}${it.message}</p>`)}</div>`}
    <p class="faint">A changed limit takes effect on release, for all versions of the workflow; runs inside the gate keep their slots. If the workflow is defined in the server's config file, change it there too: the server reads the file again at its next start.</p>
    <p class="actions"><button class="primary" disabled=${busy || same}>${busy ? 'Releasing …' : 'Release'}</button>
      <button type="button" onClick=${close}>Cancel</button></p>
  </form>`;
}
