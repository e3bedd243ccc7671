// Form for the target: the name of an event, or the action that a request calls.
import { html } from '../../lib/html.mjs';
import { table } from '../../lib/controls.mjs';
import { to } from '../../lib/route.mjs';
import { actionOf, controlsOf, eventNames, takes } from '../../lib/workflows.mjs';
import { controlsOf as sentences } from '../../ui/controls.mjs';
import { WorkflowLink } from '../../ui/link.mjs';
import { Badge } from '../../ui/state.mjs';

/** @typedef {import('../../lib/workflows.mjs').Workflow} Workflow */
/** @typedef {{ draft: import('./plan.mjs').Draft, change: (change: any) => void, workflows: Workflow[] }} Props */

/** Workflows that the draft starts. @param {import('./plan.mjs').Draft} draft @param {Workflow[]} workflows */
export const takers = (draft, workflows) =>
  workflows.filter((it) => (draft.kind === 'event' ? draft.name && takes(it, draft.name) : it.name === `${draft.flow}/${draft.action}`));

/** @param {{ takers: Workflow[], draft: import('./plan.mjs').Draft }} props */
const Takers = ({ takers, draft }) =>
  takers.length === 0
    ? draft.kind === 'event' && draft.name ? html`<p class="faint">No workflow has the trigger <code>${draft.name}</code>: the event is recorded, and resumes or cancels runs that wait for it.</p>` : null
    : html`<p class="takers">${draft.kind === 'event' ? 'Starts' : 'Calls'} ${takers.map((it) => html`<span class="taker" key=${it.name}><${WorkflowLink} app=${it.app} name=${it.name} />
        ${controlsOf(it).map((control) => html`<${Badge} tone="accent">${control}</${Badge}>`)}</span>`)}</p>
      ${takers.length === 1 && sentences(takers[0].flowControl, table.value).map((it) => html`<p class="soft" key=${it.at.join()}><b>${it.control}</b>: ${it.sentence}.</p>`)}
      ${takers.length === 1 && takers[0].description && html`<p class="soft">${takers[0].description}</p>`}`;

/** @param {Props} props */
function EventName({ draft, change, workflows }) {
  return html`<label class="field"><span>Event name</span>
    <input value=${draft.name} list="try-events" maxlength="256" required spellcheck=${false} placeholder="order/placed" data-search
      onInput=${(/** @type {any} */ e) => change({ name: e.target.value })} />
    <datalist id="try-events">${eventNames(workflows).map((it) => html`<option value=${it} />`)}</datalist></label>`;
}

/** @param {Props} props */
function Action({ draft, change, workflows }) {
  const known = workflows.map(actionOf).filter((it) => it !== null);
  const flows = [...new Set(known.map(([flow]) => flow))];
  const actions = known.filter(([flow]) => flow === draft.flow).map(([, action]) => action);
  /** @param {string} flow */
  const choose = (flow) => change({ flow, action: known.find(([of]) => of === flow)?.[1] ?? '' });
  if (flows.length === 0) return html`<p class="soft">No flows yet. Define one in the server's config file under <code>[[flow]]</code>, or register it from a program.</p>`;
  return html`<div class="pair">
      <label class="field"><span>Flow</span><select value=${draft.flow} onChange=${(/** @type {any} */ e) => choose(e.target.value)}>
        ${!flows.includes(draft.flow) && html`<option value=${draft.flow}>${draft.flow || 'select'}</option>`}${flows.map((it) => html`<option value=${it} selected=${it === draft.flow}>${it}</option>`)}</select></label>
      <label class="field"><span>Action</span><select value=${draft.action} onChange=${(/** @type {any} */ e) => change({ action: e.target.value })}>
        ${actions.map((it) => html`<option value=${it} selected=${it === draft.action}>${it}</option>`)}</select></label>
    </div>
    <div class="pair">
      <label class="field"><span>Session</span><input value=${draft.session} spellcheck=${false} placeholder="none" onInput=${(/** @type {any} */ e) => change({ session: e.target.value })} /></label>
      <label class="field"><span>User</span><input value=${draft.user} spellcheck=${false} placeholder="none" onInput=${(/** @type {any} */ e) => change({ user: e.target.value })} /></label>
      <label class="field"><span>Wait for result</span><select value=${String(draft.wait)} onChange=${(/** @type {any} */ e) => change({ wait: Number(e.target.value) })}>
        ${[[0, 'no, stream it'], [5000, 'up to 5 s'], [30_000, 'up to 30 s'], [60_000, 'up to 60 s']].map(([ms, text]) => html`<option value=${ms} selected=${ms === draft.wait}>${text}</option>`)}</select></label>
    </div>`;
}

/** @param {Props} props */
export function Target(props) {
  const { draft, workflows } = props;
  return html`<div class="stack tight">
    ${draft.kind === 'event' ? html`<${EventName} ...${props} />` : html`<${Action} ...${props} />`}
    ${workflows.length === 0 && draft.kind === 'event' && html`<p class="faint">No workflows yet: the event is only recorded. See <a href=${to('workflows')}>Workflows</a> to define one.</p>`}
    <${Takers} takers=${takers(draft, workflows)} draft=${draft} />
  </div>`;
}
