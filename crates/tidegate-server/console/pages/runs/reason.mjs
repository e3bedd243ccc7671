import { html } from '../../lib/html.mjs';
import { confirm } from '../../ui/confirm.mjs';

/** Asks for confirmation of a cancel and for its reason. @param {{ title: string, text: any, yes: string, label?: string }} question @returns {Promise<string | null>} `null`: no */
export async function askReason({ title, text, yes, label = 'Reason, stored with the run (optional)' }) {
  let reason = '';
  const ok = await confirm({
    title,
    yes,
    no: 'Go back',
    bad: true,
    text: html`${text}<label class="field reason"><span>${label}</span>
      <input maxlength="500" onInput=${(/** @type {Event} */ event) => (reason = /** @type {HTMLInputElement} */ (event.target).value)} /></label>`,
  });
  return ok ? reason.trim() : null;
}
