import { html } from '../../lib/html.mjs';
import { plural } from '../../lib/format.mjs';
import { versions } from '../../lib/live.mjs';
import { to } from '../../lib/route.mjs';

/** Alert about stranded runs: no live engine serves their version. */
export function Stranded() {
  const all = [...versions.value.values()].filter((it) => (it.stranded ?? 0) > 0);
  if (all.length === 0) return null;
  return html`<p class="loud" role="alert">${all.slice(0, 3).map((it, i) => html`${i > 0 ? '; ' : ''}${plural(it.stranded ?? 0, 'run')} of <a href=${to('runs', { app: it.app === 'default' ? undefined : it.app, workflow: it.workflow, version: it.version })}>${it.workflow} v${it.version}</a>`)}${
    all.length > 3 ? ` and of ${all.length - 3} more` : ''} ${all.length === 1 && all[0].stranded === 1 ? 'is' : 'are'} stranded: no live engine serves this version.</p>`;
}
