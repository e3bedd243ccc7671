// The server's table of controls. It is fetched once: it changes with the server's binary only.
import { effect, signal } from '@preact/signals';
import { epoch, get } from './api.mjs';

/**
 * @typedef {{ name: string, type: string | string[], default?: string }} Field
 *   `type`: `count`, `duration`, `path`, or the words of which it takes one; required without `default`
 * @typedef {{ name: string, purpose: string, acts: string, onOverflow: string, fields: Field[], onActions: boolean }} Row
 * @typedef {{ controls: Row[], gates: string[] }} Table
 *   `gates`: names of all controls that have gates; both lists are in the order in which they act
 */

/** Time in ms after which a failed request is sent again. */
const RETRY = 5000;

/** Empty until it is fetched. */
export const table = signal(/** @type {Table} */ ({ controls: [], gates: [] }));

async function load() {
  if (table.peek().controls.length > 0) return;
  try {
    table.value = await get('/controls');
  } catch (error) {
    // No retry after 401: entering another API key changes `epoch`, which calls `load` again.
    if (/** @type {any} */ (error).status !== 401) setTimeout(load, RETRY);
  }
}

effect(() => {
  void epoch.value;
  load();
});
