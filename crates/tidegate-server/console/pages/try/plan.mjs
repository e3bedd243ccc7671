// Computes the events or requests of a burst.
import { Exact, number } from '../../lib/json.mjs';

/** Maximum size of a burst. */
export const MOST = 1000;

/** @typedef {{ on: boolean, n: number, field: string, values: string, how: string, rate: number }} Burst */
/** @typedef {{ kind: string, name: string, flow: string, action: string, session: string, user: string, text: string, wait: number }} Draft */
/** @typedef {{ key: string, body: any }} Item one event or request, and its value of the varying field */

/** `a, b, c`, `1..50` or `user-1..20`: values of the varying field. @param {string} text @returns {string[]} */
export function valuesOf(text) {
  return text.split(',').map((it) => it.trim()).filter(Boolean).flatMap((part) => {
    const range = part.match(/^(.*?)(\d+)\.\.(\d+)$/);
    if (!range) return [part];
    const [from, to] = [Number(range[2]), Number(range[3])];
    return Array.from({ length: Math.max(0, Math.min(MOST, to - from + 1)) }, (_, i) => `${range[1]}${from + i}`);
  });
}

/** Paths of scalars in the data, spelled as in keys. @param {any} data @returns {string[]} */
export function pathsOf(data, before = '', depth = 0) {
  if (data === null || typeof data !== 'object' || data instanceof Exact || depth > 4) return before ? [before] : [];
  return Object.entries(data).flatMap(([name, value]) => pathsOf(value, before ? `${before}.${name}` : name, depth + 1));
}

/** @param {any} data @param {string} path */
export const at = (data, path) => path.split('.').reduce((value, name) => value?.[name], data);

/** Copy of the data with a value set at a path. @param {any} data @param {string[]} names @param {any} value @returns {any} */
function put(data, [name, ...rest], value) {
  if (name === undefined) return value;
  const copy = Array.isArray(data) ? [...data] : { ...(data && typeof data === 'object' ? data : {}) };
  /** @type {any} */ (copy)[name] = put(/** @type {any} */ (copy)[name], rest, value);
  return copy;
}

/** Replaces `{i}` in strings by the number of the event. @param {any} data @param {number} i @returns {any} */
function numbered(data, i) {
  if (typeof data === 'string') return data.includes('{i}') ? data.replaceAll('{i}', String(i)) : data;
  if (Array.isArray(data)) return data.map((it) => numbered(it, i));
  if (data && typeof data === 'object' && !(data instanceof Exact)) return Object.fromEntries(Object.entries(data).map(([name, it]) => [name, numbered(it, i)]));
  return data;
}

/** Keeps the value a number if the field was one. @param {any} before @param {string} value */
const typed = (before, value) => ((typeof before === 'number' || before instanceof Exact) && value.trim() !== '' && Number.isFinite(Number(value)) ? number(value) : value);

/** @param {number} i @param {string[]} values @param {string} how */
function pick(i, values, how) {
  if (how === 'random') return values[Math.floor(Math.random() * values.length)];
  // Four of five items get the first value, to simulate one noisy key.
  if (how === 'first') return i % 5 === 4 && values.length > 1 ? values[1 + (Math.floor(i / 5) % (values.length - 1))] : values[0];
  return values[i % values.length];
}

/** @param {Draft} draft @param {any} data */
export const bodyOf = (draft, data) =>
  draft.kind === 'event'
    ? { name: draft.name, data }
    : { input: data, ...(draft.session ? { session: draft.session } : {}), ...(draft.user ? { user: draft.user } : {}) };

/** @param {Draft} draft @param {any} data @param {Burst} burst @returns {Item[]} */
export function plan(draft, data, burst) {
  const values = valuesOf(burst.values);
  const names = draft.kind === 'event' && burst.field ? `data.${burst.field}` : burst.field;
  return Array.from({ length: Math.max(0, Math.min(MOST, Math.floor(burst.n) || 0)) }, (_, i) => {
    const body = bodyOf(draft, numbered(data, i + 1));
    if (!names || values.length === 0) return { key: '', body };
    const key = pick(i, values, burst.how);
    return { key, body: put(body, names.split('.'), typed(at(body, names), key)) };
  });
}
