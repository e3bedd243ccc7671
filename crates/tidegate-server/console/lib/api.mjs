// Client of the HTTP API, shared by all pages.
import { batch, signal } from '@preact/signals';
import { parse } from './json.mjs';

/** Error answer of the server. */
export class Problem extends Error {
  /** @param {number} status @param {{ error?: string, detail?: string, title?: string, requestId?: string, [more: string]: unknown }} told */
  constructor(status, told) {
    super(told.detail ?? told.title ?? `the server answered ${status}`);
    this.name = 'Problem';
    this.status = status;
    this.code = told.error ?? `http_${status}`;
    this.told = told;
  }
}

/** Base URL of the API: the directory of the page. */
const base = new URL('.', location.href.split('#')[0]).href.replace(/\/$/, '');

/** API key, stored for this tab only. */
export const key = signal(sessionStorage.getItem('tidegate-key') ?? '');
/** Workspace; empty for the default of the key or of the server. */
export const workspace = signal(localStorage.getItem('tidegate-workspace') ?? '');
/** Why the server requires an API key; `null` if it does not. @type {import('@preact/signals').Signal<string | null>} */
export const locked = signal(null);

/** Counter that grows with every entered key, also with the same one: refused requests are repeated. */
export const epoch = signal(0);

/** @param {string} value */
export function unlock(value) {
  sessionStorage.setItem('tidegate-key', value);
  batch(() => {
    key.value = value;
    locked.value = null;
    epoch.value += 1;
  });
}

/** Shows the key form, unless another key was entered after the request was sent. @param {number} sent epoch of the request @param {string} why @returns {boolean} */
export function lock(sent, why) {
  if (sent !== epoch.peek()) return false;
  locked.value = why;
  return true;
}

/** @returns {Record<string, string>} */
export function who() {
  /** @type {Record<string, string>} */
  const headers = {};
  if (key.value) headers.authorization = `Bearer ${key.value}`;
  if (workspace.value) headers['tidegate-workspace'] = workspace.value;
  return headers;
}

/** URL of an API path. @param {string} path @param {Record<string, unknown>} [query] */
export function address(path, query = {}) {
  const url = new URL(base + path);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.set(name, String(value));
  }
  return url.href;
}

/** Path with its parts percent-encoded. @param {TemplateStringsArray} texts @param {string[]} parts */
export const path = (texts, ...parts) =>
  texts.reduce((all, text, i) => all + text + (i < parts.length ? encodeURIComponent(parts[i]) : ''), '');

/**
 * @param {string} method @param {string} where
 * @param {{ query?: Record<string, unknown>, body?: unknown, signal?: AbortSignal, headers?: Record<string, string>,
 *   heard?: (status: number) => void }} [options]
 */
async function ask(method, where, { query, body, signal: stop, headers, heard } = {}) {
  /** @type {RequestInit} */
  const init = { method, headers: { ...who(), ...headers }, signal: stop };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, 'content-type': 'application/json' };
  }
  const sent = epoch.peek();
  let response;
  try {
    response = await fetch(address(where, query), init);
  } catch (error) {
    if (stop?.aborted) throw error;
    throw new Problem(0, { error: 'unreachable', detail: 'server unreachable, retrying' });
  }
  heard?.(response.status);
  const text = await response.text();
  const told = text ? parse(text) : null;
  if (response.ok) return told;
  const problem = new Problem(response.status, told ?? {});
  if (response.status === 401) lock(sent, problem.message);
  throw problem;
}

/** @param {string} where @param {Record<string, unknown>} [query] @param {AbortSignal} [stop] */
export const get = (where, query, stop) => ask('GET', where, { query, signal: stop });

/** @param {string} where @param {unknown} [body] @param {Record<string, unknown>} [query] @param {(status: number) => void} [heard] */
export const post = (where, body, query, heard) => ask('POST', where, { body, query, heard });

/** @param {string} where @param {unknown} body @param {Record<string, unknown>} [query] */
export const put = (where, body, query) => ask('PUT', where, { body, query });

/** @param {string} where @param {unknown} body @param {Record<string, unknown>} [query] */
export const del = (where, body, query) => ask('DELETE', where, { body, query });

/** @param {string} where @param {unknown} body @param {Record<string, unknown>} [query] */
export const patch = (where, body, query) => ask('PATCH', where, { body, query });
