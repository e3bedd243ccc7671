import { html } from '../lib/html.mjs';
import { parse as read } from '../lib/json.mjs';

/** @param {string} text @returns {{ value?: unknown, wrong?: string }} */
export function parse(text) {
  if (text.trim() === '') return { value: undefined };
  try {
    return { value: read(text) };
  } catch (error) {
    return { wrong: /** @type {Error} */ (error).message };
  }
}

/** Text field for JSON that shows parse errors. @param {{ label: string, text: string, set: (text: string) => void, rows?: number }} props */
export function EditJson({ label, text, set, rows = 10 }) {
  const { wrong } = parse(text);
  return html`<label class="field"><span>${label}</span>
    <textarea rows=${rows} spellcheck=${false} value=${text} aria-invalid=${wrong ? 'true' : undefined}
      onInput=${(/** @type {Event} */ event) => set(/** @type {HTMLTextAreaElement} */ (event.target).value)}></textarea>
    <span class="wrong" role="status">${wrong ? `Invalid JSON: ${wrong}` : ''}</span></label>`;
}
