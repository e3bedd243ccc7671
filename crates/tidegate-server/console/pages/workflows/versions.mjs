import { html } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { count, plural } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';
import { confirm } from '../../ui/confirm.mjs';
import { Badge } from '../../ui/state.mjs';
import { act } from '../../ui/toast.mjs';
import { live } from './numbers.mjs';

/** Number of newest versions shown; those with runs are always shown. */
const SHOWN = 8;

/** Versions with their numbers of runs, and a release button for each. @param {{ workflow: any, list: import('../../lib/live.mjs').OfVersion[], again: () => void }} props */
export function Versions({ workflow, list, again }) {
  const { app, name, version: current } = workflow;
  const of = new Map(list.map((it) => [it.version, it]));
  const all = /** @type {number[]} */ ([...workflow.versions]).sort((a, b) => b - a);
  const shown = all.filter((it, i) => i < SHOWN || it === current || (of.has(it) && live(/** @type {any} */ (of.get(it))) > 0));
  /** @param {number} version */
  async function release(version) {
    const yes = await confirm({
      title: `Release version ${version} of ${name}?`,
      text: `New runs use version ${version} and its controls. Runs that have started keep their version${workflow.flowControl?.handoff ? ', unless the handoff control cancels or moves them' : ''}.`,
      yes: `Release version ${version}`,
    });
    if (!yes) return;
    await act(() => post(path`/workflows/${name}/release`, { version }, { app }), (told) =>
      `Released version ${version}${told.older > 0 ? `; ${plural(told.older, 'run of another version continues', 'runs of other versions continue')}` : ''}${told.stranded > 0 ? `, ${count(told.stranded)} of them stranded` : ''}.`);
    again();
  }
  return html`<section><h3>Versions</h3>
    <table class="table versions" aria-label="Versions"><thead><tr><th scope="col">Version</th><th scope="col" class="num">In flight</th><th scope="col" class="num">Queued</th><th scope="col" class="num">Waiting</th><th scope="col" class="num">Paused</th><th scope="col"><span class="visually-hidden">Release</span></th></tr></thead>
      <tbody>${shown.map((version) => {
        const n = of.get(version);
        return html`<tr key=${version}><td><a href=${to('runs', { workflow: name, version })}>v${version}</a> ${version === current ? html`<${Badge} tone="good" title="new runs use this version">current</${Badge}>` : ''}
            ${(n?.stranded ?? 0) > 0 && html`<${Badge} tone="bad" title="runs whose version no live engine serves">${count(n?.stranded ?? 0)} stranded</${Badge}>`}</td>
          ${/** @type {const} */ (['inFlight', 'queued', 'waiting', 'paused']).map((what) => html`<td class="num">${n?.[what] ? count(n[what]) : html`<span class="faint">0</span>`}</td>`)}
          <td class="num">${version !== current && html`<button type="button" onClick=${() => release(version)}>Release</button>`}</td></tr>`;
      })}</tbody></table>
    ${shown.length < all.length && html`<p class="faint">and ${plural(all.length - shown.length, 'older version')} without runs</p>`}</section>`;
}
