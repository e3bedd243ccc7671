import { html } from '../lib/html.mjs';
import { shortId } from '../lib/format.mjs';
import { to } from '../lib/route.mjs';

/** Link to a run. @param {{ id: string, whole?: boolean }} props */
export const RunLink = ({ id, whole }) =>
  html`<a class="id" href=${to(['runs', id])} title=${id}>${whole ? id : shortId(id)}</a>`;

/** Link to an event. @param {{ id: string, whole?: boolean }} props */
export const EventLink = ({ id, whole }) =>
  html`<a class="id" href=${to(['events', id])} title=${id}>${whole ? id : shortId(id)}</a>`;

/** Link to a workflow; an action is `flow/action`. @param {{ app?: string, name: string, version?: number }} props */
export const WorkflowLink = ({ app, name, version }) =>
  html`<a href=${to('workflows', { open: name, app: app === 'default' ? undefined : app })}>${name}</a>${
    version ? html`<span class="faint"> v${version}</span>` : null}`;
