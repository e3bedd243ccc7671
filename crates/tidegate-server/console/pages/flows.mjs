import { html } from '../lib/html.mjs';
export default () => html`<h1>flows</h1>`;
