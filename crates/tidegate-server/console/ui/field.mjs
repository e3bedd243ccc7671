import { html, useEffect, useRef, useState } from '../lib/html.mjs';
import { route, setQuery } from '../lib/route.mjs';

/** Text filter, stored as a query parameter of the address. @param {{ name: string, label: string, placeholder?: string, main?: boolean, list?: string[] }} props */
export function Search({ name, label, placeholder, main, list }) {
  const given = route.value.query.get(name) ?? '';
  const [text, setText] = useState(given);
  const timer = useRef(/** @type {number | undefined} */ (undefined));
  useEffect(() => setText(given), [given]);
  /** @param {Event} event */
  function typed(event) {
    const value = /** @type {HTMLInputElement} */ (event.target).value;
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ [name]: value || undefined }), 250);
  }
  return html`<label class="field"><span>${label}</span>
    <input type="search" value=${text} onInput=${typed} placeholder=${placeholder} data-search=${main || undefined}
      list=${list ? `${name}-known` : undefined} spellcheck=${false} />
    ${list && html`<datalist id=${`${name}-known`}>${list.map((it) => html`<option value=${it} />`)}</datalist>`}
  </label>`;
}

/** Select filter, stored as a query parameter of the address. @param {{ name: string, label: string, words: (string | [string, string])[], all?: string }} props */
export function Choose({ name, label, words, all = 'all' }) {
  const given = route.value.query.get(name) ?? '';
  /** @param {Event} event */
  const chosen = (event) => setQuery({ [name]: /** @type {HTMLSelectElement} */ (event.target).value || undefined });
  return html`<label class="field"><span>${label}</span>
    <select value=${given} onChange=${chosen}>
      <option value="">${all}</option>
      ${words.map((word) => (Array.isArray(word) ? word : [word, word])).map(([value, text]) => html`<option value=${value} selected=${value === given}>${text}</option>`)}
    </select></label>`;
}
