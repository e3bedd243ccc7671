// List of runs: the loaded pages, updated from the server's stream of newest runs.
import { epoch, get } from '../../lib/api.mjs';
import { useEffect, useRef, useSignal } from '../../lib/html.mjs';
import { follow } from '../../lib/sse.mjs';
import { fits, tellable } from './which.mjs';

const PAGE = 100;
/** Maximum number of short pages read in a row before the reader has to continue by hand. */
const TRIES = 5;
/** Refresh interval of the visible rows, in ms: the stream has the newest runs only. */
const AGAIN = 5000;
/** Above this number of rows the list is reloaded when the reader is back at the top. */
const MANY = 1000;
/** Maximum number of newer runs kept while the rows must not move. */
const WAITING = 1000;
const ROW = 34;

/** List and scroll position as they were left, restored when the reader comes back. @type {{ of: string, at: number, top: number, runs: Runs } | null} */
let left = null;
const FRESH = 120_000;

/**
 * @typedef {{ rows: any[], newer: any[], many: boolean, next: string | null, cursors: string[], loading: boolean, busy: boolean, error: Error | null }} Runs
 *   `many`: there are more newer runs than are kept
 */

/** Newest first, as the server lists them. @param {any} a @param {any} b */
const order = (a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);

const scroller = () => /** @type {HTMLElement | null} */ (document.querySelector('main'));

/** Whether the rows must not move: the list is scrolled, or a row has the focus. */
const inHand = () => (scroller()?.scrollTop ?? 0) > 60 || document.activeElement?.matches('[data-row]') === true;

/** @param {import('./which.mjs').Which} asked @param {string} cursor */
async function read(asked, cursor, /** @type {AbortSignal} */ stop) {
  const rows = [];
  let next = cursor;
  for (let tries = 0; tries < TRIES; tries += 1) {
    const page = await get('/runs', { ...asked, limit: PAGE, cursor: next || undefined }, stop);
    rows.push(...page.runs);
    next = page.next ?? '';
    if (!next || rows.length >= PAGE / 4) break;
  }
  return { rows, next: next || null };
}

/** @param {number} top @param {number} frames number of frames to wait for the rows */
function scrollBack(top, frames) {
  const main = scroller();
  if (!main || frames === 0) return;
  if (main.scrollHeight - main.clientHeight >= top) main.scrollTo({ top });
  else requestAnimationFrame(() => scrollBack(top, frames - 1));
}

/** Merges updates into the rows. @param {any[]} rows @param {any[]} news */
function merged(rows, news) {
  const all = new Map(rows.map((it) => [it.id, it]));
  for (const it of news) all.set(it.id, it);
  return [...all.values()].sort(order);
}

/** @param {import('./which.mjs').Which} asked @param {boolean} chosen rows are selected, so no row may disappear */
export function useRuns(asked, chosen) {
  const state = useSignal(/** @type {Runs} */ ({ rows: [], newer: [], many: false, next: null, cursors: [''], loading: true, busy: false, error: null }));
  const doing = useRef({ more: () => {}, show: () => {}, again: () => {} });
  const held = useRef(chosen);
  held.current = chosen;
  useEffect(() => {
    const stop = new AbortController();
    const set = (/** @type {Partial<Runs>} */ change) => {
      if (!stop.signal.aborted) state.value = { ...state.peek(), ...change };
    };
    const still = () => held.current || inHand();
    // The API key is part of the list's identity: another key may see other runs.
    const of = JSON.stringify([epoch.peek(), asked]);
    const back = left?.of === of && Date.now() - left.at < FRESH ? left : null;
    set(back ? { ...back.runs, busy: false } : { rows: [], newer: [], many: false, next: null, cursors: [''], loading: true, error: null });
    // Restores the scroll position once the rows are rendered.
    if (back) scrollBack(back.top, 60);

    let reading = false;
    let wanted = false;
    async function first() {
      if (reading) {
        wanted = true;
        return;
      }
      reading = true;
      try {
        const { rows, next } = await read(asked, '', stop.signal);
        const { rows: before, newer, many, cursors } = state.peek();
        // `torn`: this first page does not reach down to the known rows, so runs between them are
        // not loaded.
        const torn = before.length > 0 && next !== null && rows.length > 0 && rows.at(-1).id > (newer[0] ?? before[0]).id;
        const anew = before.length === 0 || (!still() && (many || torn || cursors.length === 1 || before.length > MANY));
        if (anew) set({ rows, next, newer: [], many: false, cursors: [''], loading: false, error: null });
        else {
          take(rows);
          if (torn) set({ many: true });
        }
        set({ loading: false, error: null });
      } catch (error) {
        set({ loading: false, error: /** @type {Error} */ (error) });
      }
      reading = false;
      if (!wanted || stop.signal.aborted) return;
      wanted = false;
      first();
    }

    /** Applies updates of listed runs and adds matching new ones. @param {any[]} news */
    function take(news) {
      const { rows, newer, many, next } = state.peek();
      const known = new Set(rows.map((it) => it.id));
      const last = next === null ? '' : (rows.at(-1)?.id ?? '');
      const here = news.filter((it) => known.has(it.id));
      const fresh = news.filter((it) => !known.has(it.id) && it.id > last && fits(it, asked));
      if (still()) {
        const wait = merged(newer, fresh).filter((it) => fits(it, asked));
        return set({ rows: here.length ? merged(rows, here) : rows, newer: wait.slice(0, WAITING), many: many || wait.length > WAITING });
      }
      if (many) return first();
      set({ rows: merged(rows, [...newer, ...fresh, ...here]).filter((it) => fits(it, asked)), newer: [] });
      if (state.peek().rows.length > MANY) first();
    }

    async function more() {
      const { next, busy } = state.peek();
      if (!next || busy) return;
      set({ busy: true });
      try {
        const page = await read(asked, next, stop.signal);
        const { rows, cursors } = state.peek();
        set({ rows: merged(page.rows, rows), next: page.next, cursors: [...cursors, next], busy: false });
      } catch (error) {
        set({ busy: false, error: /** @type {Error} */ (error) });
      }
    }

    /** Refreshes the visible page. */
    async function again() {
      if (document.hidden) return;
      const { cursors } = state.peek();
      const page = Math.min(cursors.length - 1, Math.floor((scroller()?.scrollTop ?? 0) / ROW / PAGE));
      if (page === 0) return first();
      try {
        take((await read(asked, cursors[page], stop.signal)).rows);
      } catch (error) {
        set({ error: /** @type {Error} */ (error) });
      }
    }

    doing.current = { more, again: first, show: () => { scroller()?.scrollTo({ top: 0 }); /** @type {HTMLElement | null} */ (document.activeElement)?.blur(); take([]); } };
    first();
    let last = Date.now();
    const end = follow('/runs/stream', {
      on(event, data) {
        // A hidden page ignores the stream, so that its list does not grow; it reloads the list
        // when it is shown.
        if (document.hidden) return;
        if (event === 'runs' && tellable(asked)) return take(data.runs);
        // With a key filter the server scans thousands of runs for each reload, so not every
        // message causes one.
        if (Date.now() - last < (tellable(asked) ? 900 : 3000)) return;
        last = Date.now();
        first();
      },
    });
    const timer = setInterval(again, AGAIN);
    const turned = () => { if (!document.hidden) first(); };
    document.addEventListener('visibilitychange', turned);
    let top = scroller()?.scrollTop ?? 0;
    const scrolled = () => {
      // While the list is not rendered the page is short, and its scroll position was not chosen by
      // the reader.
      if (!document.querySelector('.runs')) return;
      top = scroller()?.scrollTop ?? 0;
      if (state.peek().newer.length && !still()) take([]);
    };
    scroller()?.addEventListener('scroll', scrolled, { passive: true });
    return () => {
      left = { of, at: Date.now(), top, runs: state.peek() };
      stop.abort();
      end();
      clearInterval(timer);
      document.removeEventListener('visibilitychange', turned);
      scroller()?.removeEventListener('scroll', scrolled);
    };
  }, [JSON.stringify(asked)]);
  return { ...state.value, more: () => doing.current.more(), show: () => doing.current.show(), again: () => doing.current.again() };
}
