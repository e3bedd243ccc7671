// Form generated from a JSON schema. It edits the JSON text, so that form and text stay in sync.
import { html } from '../../lib/html.mjs';
import { number, parse } from '../../lib/json.mjs';
import { plain } from './schema.mjs';

/** @typedef {{ name: string, schema: any, root: any, value: any, set: (value: any) => void, wanted: boolean, depth?: number }} Props */

/** @param {any} value */
const text = (value) => (value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value));

/** @param {Props} props */
function Input({ schema, value, set, wanted }) {
  if (schema.enum) {
    return html`<select value=${JSON.stringify(value)} onChange=${(/** @type {any} */ e) => set(e.target.value === '' ? undefined : parse(e.target.value))}>
      ${!wanted && html`<option value="">–</option>`}
      ${schema.enum.map((/** @type {any} */ it) => html`<option value=${JSON.stringify(it)} selected=${it === value}>${text(it)}</option>`)}</select>`;
  }
  if (schema.type === 'integer' || schema.type === 'number') {
    return html`<input type="number" step=${schema.type === 'integer' ? 1 : 'any'} min=${schema.minimum} max=${schema.maximum} value=${value ?? ''} required=${wanted}
      onInput=${(/** @type {any} */ e) => set(e.target.value === '' ? undefined : number(e.target.value))} />`;
  }
  if (schema.type === 'string') {
    const long = (schema.maxLength ?? 0) > 200 || text(value).length > 80;
    /** @param {any} e */
    const typed = (e) => set(e.target.value === '' && !wanted ? undefined : e.target.value);
    return long
      ? html`<textarea rows="3" value=${text(value)} onInput=${typed}></textarea>`
      : html`<input value=${text(value)} placeholder=${schema.format ?? ''} maxlength=${schema.maxLength} spellcheck=${false} onInput=${typed} />`;
  }
  /** @param {any} e */
  function changed(e) {
    try {
      set(e.target.value.trim() ? parse(e.target.value) : undefined);
      e.target.setCustomValidity('');
    } catch {
      e.target.setCustomValidity('Invalid JSON');
      e.target.reportValidity();
    }
  }
  return html`<textarea rows="2" value=${value === undefined ? '' : JSON.stringify(value)} placeholder="JSON" onChange=${changed} spellcheck=${false}></textarea>`;
}

/** @param {Props} props */
function Field(props) {
  const { name, root, value, set, wanted, depth = 0 } = props;
  const schema = plain(props.schema, root);
  if (schema.properties && depth < 4) {
    return html`<fieldset class="group"><legend>${name}</legend><${Fields} schema=${schema} root=${root} value=${value} set=${set} depth=${depth + 1} /></fieldset>`;
  }
  if (schema.type === 'boolean') {
    return html`<label class="check"><input type="checkbox" checked=${value === true} onChange=${(/** @type {any} */ e) => set(e.target.checked)} /> ${schema.title ?? name}
      ${schema.description && html`<span class="faint">${schema.description}</span>`}</label>`;
  }
  return html`<label class="field"><span><b>${name}</b>${!wanted && ' (optional)'}${schema.description && html` – ${schema.description}`}</span>
    <${Input} ...${{ ...props, schema }} /></label>`;
}

/** @param {{ schema: any, root?: any, value: any, set: (value: any) => void, depth?: number }} props */
export function Fields({ schema, root = schema, value, set, depth = 0 }) {
  const it = plain(schema, root);
  const now = value && typeof value === 'object' && !Array.isArray(value) ? value : {};
  /** @param {string} name @param {any} next */
  function put(name, next) {
    const { [name]: _, ...others } = now;
    set(next === undefined ? others : { ...now, [name]: next });
  }
  return html`<div class="stack tight">${Object.entries(it.properties ?? {}).map(([name, of]) =>
    html`<${Field} key=${name} name=${name} schema=${of} root=${root} value=${now[name]} set=${(/** @type {any} */ next) => put(name, next)} wanted=${(it.required ?? []).includes(name)} depth=${depth} />`)}</div>`;
}
