// Preview of a change of an override, then the change itself.
import { html } from '../../lib/html.mjs';
import { confirm } from '../../ui/confirm.mjs';
import { Time } from '../../ui/time.mjs';
import { act } from '../../ui/toast.mjs';

/** @typedef {import('./override.mjs').Override} Override */

/** Fields of an override in words. @param {Override | undefined} it */
export const words = (it) =>
  it === undefined
    ? 'no override'
    : [it.limit && `limit ${it.limit}`, it.perMs && `per ${it.perMs} ms`, it.burst && `burst ${it.burst}`, it.weight && `weight ${it.weight}`, it.paused === true && 'paused', it.paused === false && 'not paused', it.closedUntil && 'closed'].filter(Boolean).join(', ');

/** Fields of an override with its end. @param {{ of: Override | undefined }} props */
const Fields = ({ of }) => html`${words(of)}${of?.closedUntil && html` until <${Time} at=${of.closedUntil} />`}${of?.expiresAt && html`, ends <${Time} at=${of.expiresAt} />`}`;

/** Effect of a change on the runs that wait, in words. @param {{ enter: number, wait: number, atLeast?: boolean }} it */
const effect = (it) => `Of the waiting runs ${it.enter}${it.atLeast ? ' or more' : ''} would enter at once, ${it.wait} would go on waiting.`;

/** Asks for confirmation with a preview, then makes the change under the epoch of the preview.
 *  @param {(query: Record<string, unknown>, ifEpoch?: number) => Promise<any>} change @param {string} title @returns {Promise<boolean>} whether it was made */
export async function previewed(change, title) {
  const seen = await act(() => change({ dryRun: true }), (it) => `Now: ${words(it.before)}. After: ${words(it.after)}.`);
  if (!seen) return false;
  const text = html`<p>Now: <${Fields} of=${seen.before} />.</p><p>After: <${Fields} of=${seen.after} />.</p>${seen.effect && !seen.after?.weight && !seen.before?.weight && html`<p>${effect(seen.effect)}</p>`}`;
  if (!(await confirm({ title, text, yes: 'Apply' }))) return false;
  return Boolean(await act(() => change({}, seen.epoch), 'Override changed. Undo it in the same place.'));
}
