import { html } from '../lib/html.mjs';
export default () => html`<h1>workflows</h1>`;
