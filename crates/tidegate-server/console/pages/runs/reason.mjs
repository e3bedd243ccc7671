import { html } from '../../lib/html.mjs';
import { confirm } from '../../ui/confirm.mjs';

/** Asks whether, and for the reason that is kept. @param {{ title: string, text: any, yes: string }} question @returns {Promise<string | null>} `null`: no */
export async function askReason({ title, text, yes }) {
  let reason = '';
  const ok = await confirm({
    title,
    yes,
    bad: true,
    text: html`${text}<label class="field reason"><span>Reason, kept with the run (not needed)</span>
      <input maxlength="500" onInput=${(/** @type {Event} */ event) => (reason = /** @type {HTMLInputElement} */ (event.target).value)} /></label>`,
  });
  return ok ? reason.trim() : null;
}
