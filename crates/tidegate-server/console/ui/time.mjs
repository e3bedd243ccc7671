import { html } from '../lib/html.mjs';
import { now, second } from '../lib/clock.mjs';
import { exact, moment, span } from '../lib/format.mjs';

/** A moment in the reader's zone, the exact one on hover. @param {{ at?: string | number | null }} props */
export function Time({ at }) {
  if (at === undefined || at === null) return html`<span class="faint">–</span>`;
  return html`<time datetime=${new Date(at).toISOString()} title=${exact(at)}>${moment(at)}</time>`;
}

/** How long ago, counting on. @param {{ at?: string | number | null }} props */
export function Ago({ at }) {
  void second.value;
  if (at === undefined || at === null) return html`<span class="faint">–</span>`;
  return html`<time datetime=${new Date(at).toISOString()} title=${exact(at)}>${span(now() - new Date(at).getTime())} ago</time>`;
}

/** How long until then, counting down. @param {{ at?: string | number | null }} props */
export function Until({ at }) {
  void second.value;
  if (at === undefined || at === null) return html`<span class="faint">–</span>`;
  const left = new Date(at).getTime() - now();
  return html`<time datetime=${new Date(at).toISOString()} title=${exact(at)}>${left <= 0 ? 'due now' : `in ${span(left)}`}</time>`;
}

/** From a moment to another, or till now. @param {{ from: string | number, to?: string | number | null }} props */
export function Took({ from, to }) {
  if (!to) void second.value;
  const end = to ? new Date(to).getTime() : now();
  return html`<span class="num">${span(end - new Date(from).getTime())}</span>`;
}
