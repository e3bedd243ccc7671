// The only clock of the console. Tests freeze it. The console corrects it by the server's time, so
// that "in 3 s" is right on a machine with a wrong clock.
import { signal } from '@preact/signals';

let ahead = 0;
/** @type {number | null} */
let frozen = null;

/** Now, in milliseconds, as the server sees it. */
export function now() {
  return frozen ?? Date.now() + ahead;
}

/** Sets the clock by the server's time. @param {string | number} at */
export function correct(at) {
  const server = typeof at === 'number' ? at : Date.parse(at);
  if (Number.isFinite(server)) ahead = server - Date.now();
}

/** For tests. @param {number | null} at */
export function freeze(at) {
  frozen = at;
  second.value = now();
}

/** Signal that changes every second: a component that reads it is rendered again as time passes. */
export const second = signal(now());
setInterval(() => {
  if (!document.hidden) second.value = now();
}, 1000);
