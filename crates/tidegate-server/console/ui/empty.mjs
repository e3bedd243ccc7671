import { html } from '../lib/html.mjs';

/** There is nothing, and what to do about it. @param {{ title: string, children?: any }} props */
export const Empty = ({ title, children }) =>
  html`<div class="empty"><p class="empty-title">${title}</p><div>${children}</div></div>`;

/** Something went wrong, in the server's words. @param {{ error: Error & { code?: string }, again?: () => void }} props */
export const Failed = ({ error, again }) =>
  html`<div class="empty failed" role="alert"><p class="empty-title">${error.message}</p>
    <div>${error.code ? html`<code>${error.code}</code> ` : null}${again ? html`<button type="button" onClick=${again}>Ask again</button>` : null}</div></div>`;

/** What a fetched thing shows before there is anything, or `null` once there is.
 *  @param {{ value: any, error: any, loading: boolean, again?: () => void }} fetched */
export function notYet({ value, error, loading, again }) {
  if (value) return null;
  if (error) return html`<${Failed} error=${error} again=${again} />`;
  return loading ? html`<div class="empty" aria-busy="true">Loading …</div>` : null;
}

/** The data is older than it should be. @param {{ error: Error | null }} props */
export const Stale = ({ error }) =>
  error ? html`<p class="stale" role="status">What you see is from before: ${error.message}</p>` : null;
