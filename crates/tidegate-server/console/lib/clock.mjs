// The one source of time. Tests freeze it; the server's own time corrects it, so that "in 3 s"
// is right on a machine whose clock is not.
import { signal } from '@preact/signals';

let ahead = 0;
/** @type {number | null} */
let frozen = null;

/** Now, in milliseconds, as the server sees it. */
export function now() {
  return frozen ?? Date.now() + ahead;
}

/** The server has said what time it is. @param {string | number} at */
export function correct(at) {
  const server = typeof at === 'number' ? at : Date.parse(at);
  if (Number.isFinite(server)) ahead = server - Date.now();
}

/** For tests. @param {number | null} at */
export function freeze(at) {
  frozen = at;
  second.value = now();
}

/** Changes every second: read it to be drawn again as time passes. */
export const second = signal(now());
setInterval(() => {
  if (!document.hidden) second.value = now();
}, 1000);
