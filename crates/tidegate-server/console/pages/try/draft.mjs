// Draft of an event or request. It is stored in the page's address, so that it can be shared as a
// link.
import { useEffect, useRef, useSignal } from '../../lib/html.mjs';
import { get, path } from '../../lib/api.mjs';
import { route, setQuery } from '../../lib/route.mjs';
import { template } from './schema.mjs';

/** @typedef {import('./plan.mjs').Draft} Draft */
/** @typedef {import('./plan.mjs').Burst} Burst */

/** @param {URLSearchParams} query @returns {Draft & Burst & { text: string }} */
function read(query) {
  const given = (/** @type {string} */ name, without = '') => query.get(name) ?? without;
  return {
    kind: query.has('flow') || query.get('kind') === 'request' ? 'request' : 'event',
    name: given('name'), flow: given('flow'), action: given('action'), session: given('session'), user: given('user'),
    text: given('data'), wait: Number(given('wait', '0')) || 0,
    on: query.has('n'), n: Number(given('n', '100')) || 100, field: given('field'), values: given('values'), how: given('how', 'even'), rate: Number(given('rate', '0')) || 0,
  };
}

/** @param {Draft & Burst} it */
function write(it) {
  const event = it.kind === 'event';
  return {
    kind: event || it.flow ? undefined : 'request',
    name: event ? it.name : undefined, flow: event ? undefined : it.flow, action: event ? undefined : it.action,
    session: event ? undefined : it.session, user: event ? undefined : it.user, wait: event || !it.wait ? undefined : it.wait,
    data: it.text || undefined,
    n: it.on ? it.n : undefined, field: it.on ? it.field : undefined, values: it.on ? it.values : undefined,
    how: it.on && it.how !== 'even' ? it.how : undefined, rate: it.on && it.rate ? it.rate : undefined,
  };
}

/** Current draft, and a function that changes it. */
export function useDraft() {
  const { query } = route.value;
  const draft = useSignal(read(query));
  const written = useRef(query.toString());
  const timer = useRef(/** @type {number | undefined} */ (undefined));
  useEffect(() => {
    // Navigation to another address replaces the draft.
    if (query.toString() !== written.current) draft.value = read(query);
    written.current = query.toString();
  }, [query.toString()]);
  useEffect(() => () => clearTimeout(timer.current), []);
  /** @param {Partial<Draft & Burst>} change */
  function change(change) {
    draft.value = { ...draft.value, ...change };
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      if (route.value.page !== 'try') return;
      setQuery(write(draft.value));
      written.current = route.value.query.toString();
    }, 300);
  }
  return { draft: draft.value, change };
}

/** Default data: those of the newest event or request, or generated from the schema.
 *  @param {Draft} draft @param {any} schema @returns {Promise<any>} */
export async function beginning(draft, schema) {
  try {
    if (draft.kind === 'event') {
      const told = await get('/events', { name: draft.name, limit: 1 });
      const newest = told.events[0]?.data;
      if (newest !== undefined && newest !== null) return newest;
    } else {
      const told = await get('/runs', { workflow: `${draft.flow}/${draft.action}`, limit: 1 });
      const run = told.runs[0] && (await get(path`/runs/${told.runs[0].id}`));
      if (run?.input !== undefined && run.input !== null) return run.input;
    }
  } catch {
    // Without newest data, the draft starts with a template from the schema.
  }
  return schema ? template(schema) : {};
}
