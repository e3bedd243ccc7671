import { html, useEffect, useRef, useState } from '../lib/html.mjs';

/** Row height, and number of rows rendered beyond the viewport, so that scrolling shows no gaps. */
const ROW = 34;
const BEYOND = 12;

/**
 * @typedef {{ name: any, of: (row: any) => any, num?: boolean, wide?: boolean, hide?: boolean, title?: string }} Column
 *   `hide`: hidden on a phone
 */

/**
 * Virtual table: rows of equal height, of which only the visible ones are in the document.
 *
 * @param {{ columns: Column[], rows: any[], idOf: (row: any) => string, open?: (row: any) => void, label: string,
 *   chosen?: string | null, more?: (() => void) | null, moreText?: string, busy?: boolean, tone?: (row: any) => string }} props
 */
export function Table({ columns, rows, idOf, open, label, chosen, more, moreText = 'Load older', busy, tone }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const [[from, to], setSeen] = useState([0, 60]);
  useEffect(() => {
    const main = /** @type {HTMLElement | null} */ (document.querySelector('main'));
    if (!main) return;
    let frame = 0;
    function look() {
      frame = 0;
      if (!body.current || !main) return;
      const above = main.getBoundingClientRect().top - body.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(above / ROW) - BEYOND);
      const last = Math.ceil((above + main.clientHeight) / ROW) + BEYOND;
      setSeen((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    }
    const later = () => (frame ||= requestAnimationFrame(look));
    look();
    main.addEventListener('scroll', later, { passive: true });
    addEventListener('resize', later);
    return () => {
      cancelAnimationFrame(frame);
      main.removeEventListener('scroll', later);
      removeEventListener('resize', later);
    };
  }, []);
  const seen = rows.slice(from, to);
  const below = Math.max(0, rows.length - to);
  return html`<div class="table-box">
    <table class="table" aria-label=${label} aria-rowcount=${rows.length + 1}>
      <thead><tr>${columns.map((it) => html`<th scope="col" class=${kind(it)} title=${it.title}>${it.name}</th>`)}</tr></thead>
      <tbody ref=${body}>
        ${from > 0 && html`<tr class="space" aria-hidden="true"><td style=${{ height: `${Math.min(from, rows.length) * ROW}px` }}></td></tr>`}
        ${seen.map((row) => html`<${Row} key=${idOf(row)} ...${{ row, columns, open, chosen: chosen === idOf(row), tone: tone?.(row) ?? '' }} />`)}
        ${below > 0 && html`<tr class="space" aria-hidden="true"><td style=${{ height: `${below * ROW}px` }}></td></tr>`}
      </tbody>
    </table>
    ${more && html`<p class="more"><button type="button" onClick=${more} disabled=${busy}>${busy ? 'Loading …' : moreText}</button></p>`}
  </div>`;
}

/** @param {Column} column */
const kind = ({ num, wide, hide }) => `${num ? 'num ' : ''}${wide ? 'wide ' : ''}${hide ? 'hide-phone' : ''}`;

/** @param {{ row: any, columns: Column[], open?: (row: any) => void, chosen: boolean, tone: string }} props */
function Row({ row, columns, open, chosen, tone }) {
  /** @param {MouseEvent} event */
  function click(event) {
    // A click on a link or control in the row, or one that ends a text selection, does not open the
    // row.
    if (/** @type {HTMLElement} */ (event.target).closest('a, button, input, label') || getSelection()?.toString()) return;
    open?.(row);
  }
  /** @param {KeyboardEvent} event */
  function press(event) {
    if (event.key === 'Enter' && event.target === event.currentTarget) open?.(row);
  }
  return html`<tr data-row class=${`${tone}${chosen ? ' chosen' : ''}${open ? ' opens' : ''}`} tabindex=${open ? 0 : undefined}
    aria-selected=${open ? chosen : undefined} onClick=${click} onKeyDown=${press}>
    ${columns.map((it) => html`<td class=${kind(it)}>${it.of(row)}</td>`)}
  </tr>`;
}
