import { html } from '../../lib/html.mjs';
/** @param {{ id: string }} props */
export const RunPage = ({ id }) => html`<h1>${id}</h1>`;
