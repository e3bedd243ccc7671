// Live list, newest first. New rows appear at the top; they are held back while the reader has
// scrolled down or paused the list.
import { get } from '../../lib/api.mjs';
import { useEffect, useRef, useSignal } from '../../lib/html.mjs';
import { effect } from '@preact/signals';
import { tick } from '../../lib/live.mjs';
import { follow } from '../../lib/sse.mjs';

const PAGE = 100;
/** Maximum number of short pages read in a row before the reader has to continue by hand. */
const TRIES = 5;
const OFTEN = 900;
const SELDOM = 5000;
/** Above this number of rows, including older pages, the list is reloaded once the reader is at the top. */
const MANY = 400;
/** Maximum number of newer rows kept while the rows must not move. */
const WAITING = 1000;

/**
 * @typedef {{ rows: any[], newer: any[], many: boolean, next: string | null, loading: boolean, busy: boolean, gap: number, error: Error | null }} Tail
 *   `many`: there are more newer rows than are kept; `gap`: number of times that rows were missed
 */

const scroller = () => /** @type {HTMLElement | null} */ (document.querySelector('main'));

/**
 * @param {string} path @param {string} name member of the response that has the items @param {Record<string, unknown>} query
 * @param {{ idOf: (it: any) => string, stopped: boolean, stream?: string, fits?: (it: any) => boolean }} options
 */
export function useTail(path, name, query, { idOf, stopped, stream, fits = () => true }) {
  const state = useSignal(/** @type {Tail} */ ({ rows: [], newer: [], many: false, next: null, loading: true, busy: false, gap: 0, error: null }));
  const doing = useRef({ more: () => {}, show: () => {}, again: () => {} });
  const held = useRef(stopped);
  held.current = stopped;
  useEffect(() => {
    const stop = new AbortController();
    const set = (/** @type {Partial<Tail>} */ change) => {
      if (!stop.signal.aborted) state.value = { ...state.peek(), ...change };
    };
    const still = () => held.current || (scroller()?.scrollTop ?? 0) > 60 || document.activeElement?.matches('[data-row]') === true;
    let last = 0;
    let busy = false;
    let anew = true;
    set({ rows: [], newer: [], many: false, next: null, loading: true, gap: 0, error: null });

    /** @param {string} cursor */
    async function read(cursor) {
      const items = [];
      let next = cursor;
      for (let tries = 0; tries < TRIES; tries += 1) {
        const page = await get(path, { ...query, limit: PAGE, cursor: next || undefined }, stop.signal);
        items.push(...page[name]);
        next = page.next ?? '';
        if (!next || items.length >= PAGE / 4) break;
      }
      return { items, next: next || null };
    }

    async function first() {
      if (busy) return;
      busy = true;
      last = Date.now();
      try {
        const { items, next } = await read('');
        const { rows, newer } = state.peek();
        const known = new Set([...newer, ...rows].map(idOf));
        const fresh = items.filter((it) => !known.has(idOf(it)));
        const torn = rows.length > 0 && fresh.length === items.length && items.length > 0;
        if (anew || rows.length === 0 || (!still() && (torn || rows.length > MANY))) {
          anew = false;
          set({ rows: items, newer: [], many: false, next });
        } else if (torn) set({ newer: items, many: true });
        else put(fresh);
        set({ loading: false, error: null });
      } catch (error) {
        set({ loading: false, error: /** @type {Error} */ (error) });
      }
      busy = false;
    }

    /** @param {any[]} fresh newest first */
    function put(fresh) {
      const { rows, newer, many } = state.peek();
      const all = [...fresh, ...newer];
      if (still()) return set({ newer: all.slice(0, WAITING), many: many || all.length > WAITING });
      if (many) {
        anew = true;
        return first();
      }
      set({ rows: [...all, ...rows], newer: [] });
      if (rows.length > MANY) first();
    }

    async function more() {
      const { next, busy: reading } = state.peek();
      if (!next || reading) return;
      set({ busy: true });
      try {
        const page = await read(next);
        const known = new Set(state.peek().rows.map(idOf));
        set({ rows: [...state.peek().rows, ...page.items.filter((it) => !known.has(idOf(it)))], next: page.next, busy: false });
      } catch (error) {
        set({ busy: false, error: /** @type {Error} */ (error) });
      }
    }

    function show() {
      scroller()?.scrollTo({ top: 0 });
      /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
      held.current = false;
      put([]);
    }

    doing.current = { more, show, again: first };
    first();
    const soon = () => { if (!document.hidden && Date.now() - last > OFTEN) first(); };
    const end = stream
      ? follow(stream, {
          on(event, data) {
            if (event === 'gap') {
              set({ gap: state.peek().gap + 1 });
              return soon();
            }
            const known = new Set([...state.peek().newer, ...state.peek().rows].map(idOf));
            put([...data[name]].reverse().filter((it) => fits(it) && !known.has(idOf(it))));
          },
        })
      : effect(() => { void tick.value; soon(); });
    const timer = setInterval(() => { if (!document.hidden) first(); }, SELDOM);
    const scrolled = () => { if (state.peek().newer.length && !still()) put([]); };
    scroller()?.addEventListener('scroll', scrolled, { passive: true });
    return () => {
      stop.abort();
      end();
      clearInterval(timer);
      scroller()?.removeEventListener('scroll', scrolled);
    };
  }, [path, JSON.stringify(query)]);
  return { ...state.value, more: () => doing.current.more(), show: () => doing.current.show(), again: () => doing.current.again() };
}
