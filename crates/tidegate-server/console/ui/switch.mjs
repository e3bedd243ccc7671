import { html } from '../lib/html.mjs';
import { route, setQuery } from '../lib/route.mjs';

/** Button group, stored as a query parameter of the address. @param {{ name: string, label: string, words: [string, string][] }} props */
export function Switch({ name, label, words }) {
  const given = route.value.query.get(name) ?? '';
  return html`<div class="switch" role="group" aria-label=${label}>
    ${words.map(([value, text]) => html`<button type="button" aria-pressed=${value === given} onClick=${() => setQuery({ [name]: value || undefined })}>${text}</button>`)}
  </div>`;
}
