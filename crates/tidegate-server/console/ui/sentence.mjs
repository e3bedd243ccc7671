import { html } from '../lib/html.mjs';
import { EventLink, RunLink } from './link.mjs';
import { Time } from './time.mjs';

const PARTS = /((?:run|evt)_[0-9a-z]{26}|\d{4}-\d\d-\d\dT[\d:.]+Z|`[^`]+`)/;

/** Sentence of the server with links to runs and events, and formatted times and names. @param {{ text: string }} props */
export function Sentence({ text }) {
  const said = text.charAt(0).toUpperCase() + text.slice(1);
  return html`${said.split(PARTS).map((part, i) => {
    if (i % 2 === 0) return part;
    if (part.startsWith('run_')) return html`<${RunLink} id=${part} />`;
    if (part.startsWith('evt_')) return html`<${EventLink} id=${part} />`;
    if (part.startsWith('`')) return html`<code>${part.slice(1, -1)}</code>`;
    return html`<${Time} at=${part} />`;
  })}`;
}
