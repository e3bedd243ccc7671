import { html, signal, useEffect, useRef } from '../lib/html.mjs';

/** @typedef {{ title: string, text?: any, yes: string, no?: string, bad?: boolean, answer: (yes: boolean) => void }} Question */
const asked = signal(/** @type {Question | null} */ (null));

/** Asks for confirmation before an action that cannot be undone. @param {Omit<Question, 'answer'>} question @returns {Promise<boolean>} */
export const confirm = (question) =>
  new Promise((done) => {
    asked.value = {
      ...question,
      answer(yes) {
        asked.value = null;
        done(yes);
      },
    };
  });

export function Confirm() {
  const question = asked.value;
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    if (question && !dialog.current?.open) dialog.current?.showModal();
  }, [question]);
  if (!question) return null;
  return html`<dialog ref=${dialog} class="confirm" aria-label=${question.title} onCancel=${() => question.answer(false)}>
    <h2>${question.title}</h2>
    <div>${question.text}</div>
    <p class="actions">
      <button type="button" onClick=${() => question.answer(false)}>${question.no ?? 'Cancel'}</button>
      <button type="button" class=${question.bad ? 'danger' : 'primary'} onClick=${() => question.answer(true)}>${question.yes}</button>
    </p>
  </dialog>`;
}
