import { html } from '../lib/html.mjs';

/** Views of one page, each with an address. @param {{ label: string, tabs: { text: any, href: string, here: boolean }[] }} props */
export const Tabs = ({ label, tabs }) =>
  html`<nav class="views" aria-label=${label}>${tabs.map((it) =>
    html`<a href=${it.href} aria-current=${it.here ? 'true' : undefined}>${it.text}</a>`)}</nav>`;
