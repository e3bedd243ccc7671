import { html } from '../lib/html.mjs';
export default () => html`<h1>streams</h1>`;
