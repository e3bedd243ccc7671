// Current route: `#/runs?state=queued&open=run_…`. Every view has an address, so that it can be
// shared as a link.
import { signal } from '@preact/signals';

/** @typedef {{ page: string, rest: string[], query: URLSearchParams }} Route */

/** @returns {Route} */
function read() {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [page, ...rest] = path.split('/').filter(Boolean).map(decodeURIComponent);
  return { page: page ?? 'overview', rest, query: new URLSearchParams(query) };
}

export const route = signal(read());
addEventListener('hashchange', () => {
  route.value = read();
});

/** Address of a page. @param {string | string[]} path @param {Record<string, unknown>} [query] */
export function to(path, query = {}) {
  const parts = (Array.isArray(path) ? path : [path]).map(encodeURIComponent).join('/');
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${parts}${search ? `?${search}` : ''}`;
}

/** @param {string} address as made by `to` */
export function go(address) {
  location.hash = address;
}

/** Changes query parameters in place; `undefined` removes one. @param {Record<string, unknown>} change */
export function setQuery(change) {
  const { page, rest, query } = route.value;
  const merged = { ...Object.fromEntries(query), ...change };
  history.replaceState(null, '', to([page, ...rest], merged));
  route.value = read();
}

/** Address of this page with changed query parameters; `undefined` removes one. @param {Record<string, unknown>} change */
export function here(change) {
  const { page, rest, query } = route.value;
  return to([page, ...rest], { ...Object.fromEntries(query), ...change });
}
