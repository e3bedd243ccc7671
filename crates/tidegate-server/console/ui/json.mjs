import { html, useState } from '../lib/html.mjs';

/** Number of lines shown before “Show all”. */
const SHOWN = 40;

/** JSON value with a copy button. @param {{ value: unknown, label?: string }} props */
export function Json({ value, label }) {
  const [all, setAll] = useState(false);
  const [copied, setCopied] = useState(false);
  if (value === undefined) return html`<span class="faint">no value</span>`;
  const text = JSON.stringify(value, null, 2);
  const lines = text.split('\n');
  const shown = all ? text : lines.slice(0, SHOWN).join('\n');
  async function copy() {
    await navigator.clipboard?.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  }
  return html`<div class="json">
    <pre tabindex="0" aria-label=${label ?? 'JSON'}>${shown}</pre>
    <div class="json-tools">
      ${lines.length > SHOWN && html`<button type="button" class="quiet" onClick=${() => setAll(!all)}>${all ? 'Show less' : `Show all ${lines.length} lines`}</button>`}
      <button type="button" class="quiet" onClick=${copy}>${copied ? 'Copied' : 'Copy'}</button>
    </div>
  </div>`;
}
