// Actions of a flow: each with its policy and its numbers of runs.
import { html } from '../../lib/html.mjs';
import { count } from '../../lib/format.mjs';
import { versions } from '../../lib/live.mjs';
import { to } from '../../lib/route.mjs';
import { actionOf } from '../../lib/workflows.mjs';
import { Badge } from '../../ui/state.mjs';
import { othersOf, policyOf } from './policy.mjs';

/** Number of runs of all versions of an action. @param {import('../../lib/workflows.mjs').Workflow} action */
function tallyOf(action) {
  const of = [...versions.value.values()].filter((it) => it.app === action.app && it.workflow === action.name);
  const sum = (/** @type {'inFlight' | 'queued' | 'waiting'} */ name) => of.reduce((all, it) => all + (it[name] ?? 0), 0);
  return { inFlight: sum('inFlight'), queued: sum('queued'), waiting: sum('waiting') };
}

/** @param {{ action: import('../../lib/workflows.mjs').Workflow }} props */
function Row({ action }) {
  const { policy, key, words } = policyOf(action);
  const { inFlight, queued, waiting } = tallyOf(action);
  const [flow, name] = /** @type {[string, string]} */ (actionOf(action));
  return html`<tr>
    <td><a href=${to('workflows', { open: action.name, app: action.app === 'default' ? undefined : action.app })}>${name}</a> <span class="faint">v${action.version}</span></td>
    <td class="wide"><${Badge} tone=${policy === 'allow' ? '' : 'accent'}>${policy}</${Badge}> <span class="soft">${words}</span>${othersOf(action).map((it) => html` <${Badge} tone="accent">${it}</${Badge}>`)}</td>
    <td>${key ? html`<code>${key}</code>` : html`<span class="faint">–</span>`}</td>
    <td class="num">${inFlight ? html`<b class="go-text">${count(inFlight)}</b>` : html`<span class="faint">0</span>`}</td>
    <td class="num">${queued ? html`<b class="wait-text">${count(queued)}</b>` : html`<span class="faint">0</span>`}</td>
    <td class="num">${waiting ? count(waiting) : html`<span class="faint">0</span>`}</td>
    <td class="num"><a href=${to('try', { flow, action: name })}>Try it</a></td></tr>`;
}

/** @param {{ actions: import('../../lib/workflows.mjs').Workflow[] }} props */
export const Actions = ({ actions }) =>
  html`<div class="table-box squeezed"><table class="table" aria-label="Actions">
    <thead><tr><th scope="col">Action</th><th scope="col">Policy: while another request is inside, a request …</th><th scope="col" title="key that the policy arbitrates by">Key</th>
      <th scope="col" class="num">In flight</th><th scope="col" class="num">Queued</th><th scope="col" class="num">Waiting</th><th scope="col"><span class="visually-hidden">Try it</span></th></tr></thead>
    <tbody>${actions.map((action) => html`<${Row} key=${action.name} action=${action} />`)}</tbody></table></div>`;
