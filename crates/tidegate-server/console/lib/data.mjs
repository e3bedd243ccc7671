// Hooks that fetch the data of a page, refresh it while the page is visible, and drop it with the
// page.
import { useEffect, useRef } from 'preact/hooks';
import { effect, useSignal } from '@preact/signals';
import { get } from './api.mjs';
import { tick } from './live.mjs';

/** Shortest and longest time between two refreshes of a page, in ms. */
const OFTEN = 900;
const SELDOM = 5000;

/**
 * @template T
 * @typedef {{ value: T | null, error: Error | null, loading: boolean }} Fetched
 */

/**
 * Response to a GET request, requested again when something has changed.
 *
 * @param {string | null} path `null` sends no request
 * @param {Record<string, unknown>} [query]
 * @param {{ live?: boolean }} [options] `live: false` sends one request
 */
export function useFetched(path, query = {}, { live = true } = {}) {
  const state = useSignal(/** @type {Fetched<any>} */ ({ value: null, error: null, loading: true }));
  const again = useRef(() => {});
  const asked = JSON.stringify([path, query]);
  useEffect(() => {
    if (path === null) {
      state.value = { value: null, error: null, loading: false };
      return;
    }
    const stop = new AbortController();
    let last = 0;
    /** @type {number | undefined} */
    let timer;
    let busy = false;
    let wanted = false;
    state.value = { ...state.peek(), loading: true };
    async function look() {
      if (busy) {
        wanted = true;
        return;
      }
      busy = true;
      clearTimeout(timer);
      try {
        const value = await get(/** @type {string} */ (path), query, stop.signal);
        if (!stop.signal.aborted) state.value = { value, error: null, loading: false };
      } catch (error) {
        if (!stop.signal.aborted) state.value = { value: state.peek().value, error: /** @type {Error} */ (error), loading: false };
      }
      busy = false;
      last = Date.now();
      if (stop.signal.aborted) return;
      // A refresh was requested during this request (`wanted`): the response may lack a change made
      // since. So fetch again, also with `live: false`.
      if (live || wanted) timer = setTimeout(look, wanted ? OFTEN : SELDOM);
      wanted = false;
    }
    again.current = look;
    look();
    const end = live
      ? effect(() => {
          void tick.value;
          if (document.hidden) return;
          if (busy) {
            wanted = true;
            return;
          }
          clearTimeout(timer);
          timer = setTimeout(look, Math.max(0, last + OFTEN - Date.now()));
        })
      : () => {};
    return () => {
      stop.abort();
      clearTimeout(timer);
      end();
    };
  }, [asked, live]);
  return { ...state.value, again: () => again.current() };
}

/**
 * List that is read page by page. The first page is refreshed; later pages stay as they were read,
 * so that rows do not move under the pointer.
 *
 * @param {string} path @param {string} name member of the response that has the items
 * @param {Record<string, unknown>} query @param {(item: any) => string} idOf
 */
export function useList(path, name, query, idOf) {
  const first = useFetched(path, query);
  const rest = useSignal({ items: /** @type {any[]} */ ([]), next: /** @type {string | null | undefined} */ (undefined), busy: false });
  const asked = JSON.stringify([path, query]);
  const of = useRef(asked);
  if (of.current !== asked) {
    of.current = asked;
    rest.value = { items: [], next: undefined, busy: false };
  }
  const head = /** @type {any[]} */ (first.value?.[name] ?? []);
  const ids = new Set(head.map(idOf));
  const items = head.concat(rest.value.items.filter((it) => !ids.has(idOf(it))));
  const next = rest.value.next === undefined ? (first.value?.next ?? null) : rest.value.next;
  async function more() {
    if (!next || rest.value.busy) return;
    rest.value = { ...rest.value, busy: true };
    try {
      const page = await get(path, { ...query, cursor: next });
      if (of.current === asked) {
        // `rest` starts with a copy of the first page: when newer rows arrive, these rows leave the
        // refreshed first page, and must stay in the list.
        const kept = rest.peek().next === undefined ? head : rest.peek().items;
        rest.value = { items: kept.concat(page[name]), next: page.next, busy: false };
      }
    } catch {
      rest.value = { ...rest.peek(), busy: false };
    }
  }
  return { items, next, more, busy: rest.value.busy, loading: first.loading, error: first.error, first: first.value, again: first.again };
}
