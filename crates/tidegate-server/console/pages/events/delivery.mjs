import { html } from '../../lib/html.mjs';
import { State } from '../../ui/state.mjs';
import { Time, Until } from '../../ui/time.mjs';

/** Whether an event has no verdicts, because it waits for its delivery or was cancelled before. @param {any} event */
export const isDeferred = ({ deliverAt, deliveredAt }) => deliverAt !== undefined && deliveredAt === undefined;

/** Delivery of a deferred event. @param {{ of: any }} props */
export function Delivery({ of: { deliverAt, deliveredAt, cancelledAt } }) {
  if (cancelledAt) return html`<${State} state="cancelled" /> <span class="soft">before its delivery</span>`;
  if (deliveredAt) return html`<${Time} at=${deliveredAt} /> <span class="faint">deferred until <${Time} at=${deliverAt} /></span>`;
  return html`<${State} state="deferred" /> <span class="soft">delivered <${Until} at=${deliverAt} /></span>`;
}
