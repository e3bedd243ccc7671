import { html } from '../../lib/html.mjs';
import { count } from '../../lib/format.mjs';
import { live } from './numbers.mjs';

/**
 * Distribution of live runs over versions; only the current version if it has them all.
 *
 * @param {{ current?: number, list: import('../../lib/live.mjs').OfVersion[] }} props
 */
export function Mix({ current, list }) {
  const some = list.filter((it) => live(it) > 0);
  const older = some.filter((it) => it.version !== current);
  if (older.length === 0) return html`<span class="soft">${current === undefined ? 'not released' : `v${current}`}</span>`;
  const all = some.reduce((n, it) => n + live(it), 0);
  const said = some.map((it) => `v${it.version} ${count(live(it))}`).join(' · ');
  return html`<span class="mix" title=${`live runs: ${said}`}>
    <span class="mix-bar" aria-hidden="true">${some.map((it) => html`<i class=${it.version === current ? 'now' : ''} style=${{ flexGrow: live(it) / all }}></i>`)}</span>
    <span class="num">${said}</span></span>`;
}
