// Data editor: JSON, and a form if there is a schema.
import { html, useState } from '../../lib/html.mjs';
import { parse as read } from '../../lib/json.mjs';
import { Fields } from './fields.mjs';
import { fits } from './schema.mjs';

/** @param {string} text @returns {{ data?: any, wrong?: string }} */
export function parse(text) {
  try {
    return { data: read(text.trim() || '{}') };
  } catch (error) {
    return { wrong: /** @type {Error} */ (error).message };
  }
}

/** @param {{ text: string, schema: any, label: string, change: (text: string) => void, newest: () => void }} props */
export function Data({ text, schema, label, change, newest }) {
  const [raw, setRaw] = useState(false);
  const { data, wrong } = parse(text);
  const formed = schema && fits(schema);
  const form = formed && !raw && !wrong;
  /** @param {any} e */
  const typed = (e) => change(e.target.value);
  const tidy = () => change(JSON.stringify(data, null, 2));
  return html`<section class="stack tight"><div class="line-head"><h2>${label}</h2><span class="actions">
      ${formed && html`<button type="button" class="quiet small" aria-pressed=${raw} disabled=${Boolean(wrong)} onClick=${() => setRaw(!raw)}>${form ? 'Edit as JSON' : 'Edit as form'}</button>`}
      ${!form && html`<button type="button" class="quiet small" disabled=${Boolean(wrong)} onClick=${tidy}>Format</button>`}
      <button type="button" class="quiet small" onClick=${newest} title="Copies the data of the newest event or request, or generates it from the schema">Use newest data</button></span></div>
    ${form
      ? html`<${Fields} schema=${schema} value=${data} set=${(/** @type {any} */ value) => change(JSON.stringify(value, null, 2))} />`
      : html`<textarea class="editor" rows=${Math.min(18, Math.max(5, text.split('\n').length + 1))} value=${text} onInput=${typed} spellcheck=${false} aria-label=${`${label}, as JSON`}
          aria-invalid=${wrong ? 'true' : undefined} placeholder="{}"></textarea>
        ${wrong && html`<p class="problem" role="alert">Invalid JSON: ${wrong}</p>`}`}
  </section>`;
}
