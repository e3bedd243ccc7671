import { html } from '../lib/html.mjs';
import { count } from '../lib/format.mjs';

/** Usage bar with both numbers. @param {{ value: number, of?: number | null, label?: string, tone?: string }} props */
export function Fill({ value, of, label, tone }) {
  const known = typeof of === 'number' && of > 0;
  const part = known ? Math.min(1, value / of) : 0;
  const full = known && value >= of;
  return html`<span class="fill" title=${label}>
    ${known && html`<span class=${`fill-bar ${tone ?? (full ? 'full' : '')}`} role="img" aria-label=${`${label ?? 'filled'}: ${value} of ${of}`}>
      <span style=${{ width: `${part * 100}%` }}></span></span>`}
    <span class="num">${count(value)}${known ? ` / ${count(of)}` : ''}</span>
  </span>`;
}
