// Keyboard shortcuts: `/` focuses the search, `j` and `k` move in a list, Enter opens, Esc closes, `g` and a letter opens a page.
import { go, to } from './route.mjs';

/** Callbacks for Esc, called last opened first. @type {Array<() => void>} */
const open = [];

/** @param {() => void} close @returns {() => void} unregisters the callback */
export function closes(close) {
  open.push(close);
  return () => {
    const at = open.lastIndexOf(close);
    if (at >= 0) open.splice(at, 1);
  };
}

/** @param {EventTarget | null} target */
const types = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** @param {number} by */
function walk(by) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('main [data-row]')]);
  if (rows.length === 0) return;
  const at = rows.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  next.focus();
  next.scrollIntoView({ block: 'nearest' });
}

/** @type {Record<string, string>} */
const PAGES = { o: 'overview', w: 'workflows', r: 'runs', e: 'events', g: 'gates', p: 'pools', s: 'streams', f: 'flows', a: 'audit', t: 'try' };
let going = 0;

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') {
    if (types(event.target)) /** @type {HTMLElement} */ (event.target).blur();
    else open.at(-1)?.();
    return;
  }
  if (types(event.target)) return;
  const page = PAGES[event.key];
  if (page && Date.now() - going < 1000) {
    going = 0;
    go(to(page));
  } else if (event.key === 'g') {
    going = Date.now();
  } else if (event.key === '/') {
    const search = /** @type {HTMLElement | null} */ (document.querySelector('main [data-search]'));
    if (!search) return;
    event.preventDefault();
    search.focus();
  } else if (event.key === 'j') walk(1);
  else if (event.key === 'k') walk(-1);
});
