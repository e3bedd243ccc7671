import { html } from '../lib/html.mjs';
import { now, second } from '../lib/clock.mjs';
import { exact, moment, span } from '../lib/format.mjs';

/** Time in the reader's time zone, the exact one as a tooltip. @param {{ at?: string | number | null }} props */
export function Time({ at }) {
  if (at === undefined || at === null) return html`<span class="faint">–</span>`;
  return html`<time datetime=${new Date(at).toISOString()} title=${exact(at)}>${moment(at)}</time>`;
}

/** Time since, updated every second. @param {{ at?: string | number | null }} props */
export function Ago({ at }) {
  void second.value;
  if (at === undefined || at === null) return html`<span class="faint">–</span>`;
  return html`<time datetime=${new Date(at).toISOString()} title=${exact(at)}>${span(now() - new Date(at).getTime())} ago</time>`;
}

/** Time until, updated every second. @param {{ at?: string | number | null }} props */
export function Until({ at }) {
  void second.value;
  if (at === undefined || at === null) return html`<span class="faint">–</span>`;
  const left = new Date(at).getTime() - now();
  return html`<time datetime=${new Date(at).toISOString()} title=${exact(at)}>${left <= 0 ? 'due now' : `in ${span(left)}`}</time>`;
}

/** Duration between two times, or until now. @param {{ from: string | number, to?: string | number | null }} props */
export function Took({ from, to }) {
  if (!to) void second.value;
  const end = to ? new Date(to).getTime() : now();
  return html`<span class="num">${span(end - new Date(from).getTime())}</span>`;
}
