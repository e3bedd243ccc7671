import { html } from '../lib/html.mjs';
import { path } from '../lib/api.mjs';
import { table } from '../lib/controls.mjs';
import { useFetched } from '../lib/data.mjs';
import { to } from '../lib/route.mjs';
import { controlsOf } from './controls.mjs';

/** Limits of a pool in words, in the order in which they act. @param {any} pool */
export const limitsOf = ({ concurrency, throttle, rateLimit }) =>
  controlsOf(Object.fromEntries(Object.entries({ concurrency, throttle, rateLimit }).filter(([, part]) => part !== undefined)), table.value);

/** Link to a workflow that uses a pool: `name`, or `app:name`. @param {{ user: string }} props */
export function User({ user }) {
  const at = user.indexOf(':');
  const [app, name] = at < 0 ? [undefined, user] : [user.slice(0, at), user.slice(at + 1)];
  return html`<a href=${to('workflows', { open: name, app })}>${user}</a>`;
}

/** Links to all users of a pool. @param {{ users: string[] }} props */
export const Users = ({ users }) =>
  users.length === 0 ? html`<span class="faint">no workflow</span>` : html`${users.map((user, i) => html`${i > 0 ? ', ' : ''}<${User} user=${user} />`)}`;

/** A pool's limits of one control, and its users. @param {{ name: string, control: string }} props */
export function Pool({ name, control }) {
  const { value } = useFetched(path`/pools/${name}`, {}, { live: false });
  if (!value) return null;
  return html`${limitsOf(value).filter((it) => it.control === control).map((it) => html`<p class="lead">${it.sentence}.</p>`)}
    <p class="faint">Pool <a href=${to('gates', { pool: name })}>${name}</a>, used by <${Users} users=${value.users} />.</p>`;
}
