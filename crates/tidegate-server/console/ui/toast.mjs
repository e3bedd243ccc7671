import { html, signal } from '../lib/html.mjs';

const said = signal(/** @type {{ id: number, text: any, bad: boolean }[]} */ ([]));
let last = 0;

/** Shows a notification for a few seconds. @param {any} text */
export function say(text, bad = false) {
  const id = ++last;
  said.value = [...said.value, { id, text, bad }].slice(-4);
  setTimeout(() => (said.value = said.value.filter((it) => it.id !== id)), bad ? 10_000 : 5000);
}

/** Runs an action and shows its result or its error as a notification. @param {() => Promise<any>} what @param {string | ((answer: any) => any)} done */
export async function act(what, done) {
  try {
    const answer = await what();
    say(typeof done === 'function' ? done(answer) : done);
    return answer;
  } catch (error) {
    say(/** @type {Error} */ (error).message, true);
    return undefined;
  }
}

export const Toasts = () =>
  html`<div class="toasts" role="status" aria-live="polite">
    ${said.value.map((it) => html`<div key=${it.id} class=${`toast${it.bad ? ' bad' : ''}`}>${it.text}</div>`)}
  </div>`;
