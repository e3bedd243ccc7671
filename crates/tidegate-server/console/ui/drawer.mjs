import { html, useEffect, useRef } from '../lib/html.mjs';
import { closes } from '../lib/keys.mjs';

/** Details panel beside the list; Esc closes it. @param {{ title: any, close: () => void, wide?: boolean, children?: any }} props */
export function Drawer({ title, close, wide, children }) {
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    panel.current?.focus();
    const closed = closes(close);
    return () => {
      closed();
      before?.focus?.();
    };
  }, []);
  return html`<aside class=${`drawer${wide ? ' wide' : ''}`} ref=${panel} tabindex="-1" role="dialog" aria-label="Details">
    <header><h2>${title}</h2><button type="button" class="quiet" onClick=${close} aria-label="Close" title="Close (Esc)">✕</button></header>
    <div class="drawer-body">${children}</div>
  </aside>`;
}
