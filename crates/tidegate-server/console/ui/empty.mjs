import { html } from '../lib/html.mjs';

/** Empty state: a title and the next step. @param {{ title: string, children?: any }} props */
export const Empty = ({ title, children }) =>
  html`<div class="empty"><p class="empty-title">${title}</p><div>${children}</div></div>`;

/** Error state with the server's message. @param {{ error: Error & { code?: string }, again?: () => void }} props */
export const Failed = ({ error, again }) =>
  html`<div class="empty failed" role="alert"><p class="empty-title">${error.message}</p>
    <div>${error.code ? html`<code>${error.code}</code> ` : null}${again ? html`<button type="button" onClick=${again}>Retry</button>` : null}</div></div>`;

/** Loading or error state of a fetched value; `null` once there is a value.
 *  @param {{ value: any, error: any, loading: boolean, again?: () => void }} fetched */
export function notYet({ value, error, loading, again }) {
  if (value) return null;
  if (error) return html`<${Failed} error=${error} again=${again} />`;
  return loading ? html`<div class="empty" aria-busy="true">Loading …</div>` : null;
}

/** Banner over data that could not be refreshed. @param {{ error: Error | null }} props */
export const Stale = ({ error }) =>
  error ? html`<p class="stale" role="status">Data may be out of date: ${error.message}</p>` : null;
