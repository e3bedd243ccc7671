// Details of a session: its live requests and its document.
import { html } from '../../lib/html.mjs';
import { path } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { count } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { notYet } from '../../ui/empty.mjs';
import { Json } from '../../ui/json.mjs';
import { RunLink } from '../../ui/link.mjs';
import { Badge, State } from '../../ui/state.mjs';
import { Ago } from '../../ui/time.mjs';
import { kindOf } from './policy.mjs';

const SHOWN = 50;

/** @param {{ flow: string, app: string, id: string }} props */
function Document({ flow, app, id }) {
  const told = useFetched(path`/sessions/${flow}/${id}`, { app });
  return html`<section><div class="line-head"><h3>Document</h3>${told.value && html`<${Badge} title="increases by one with every change">version ${count(told.value.version)}</${Badge}>`}</div>
    ${notYet(told) ?? (told.value.version === 0 ? html`<p class="faint">Empty. Runs write it with the session operations of their handlers.</p>` : html`<${Json} value=${told.value.state} label="the session's document" />`)}</section>`;
}

/** @param {{ run: any, gate: any, flow: string }} props */
function Request({ run, gate, flow }) {
  const place = gate?.line?.first?.indexOf(run.id) ?? -1;
  return html`<tr><td>${run.workflow.slice(flow.length + 1)}</td><td><${RunLink} id=${run.id} /></td><td><${State} state=${run.state} /></td>
    <td class="soft">${gate?.holders?.includes(run.id) ? 'inside' : place >= 0 ? (place === 0 ? 'next' : `position ${place + 1}`) : ''}</td><td class="num faint"><${Ago} at=${run.queuedAt} /></td></tr>`;
}

/** @param {{ flow: string, app: string, slot: string, id: string, close: () => void }} props */
export function Session({ flow, app, slot, id, close }) {
  const gates = useFetched('/gates', { control: 'policy', app, workflow: flow, key: id, limit: 100 });
  const runs = useFetched('/runs', { text: `${flow}/`, key: id, limit: SHOWN });
  const gate = gates.value?.gates.find((/** @type {any} */ it) => it.key === id && it.slot === slot);
  // Oldest request first: the order in which they are processed.
  const listed = (runs.value?.runs ?? []).filter((/** @type {any} */ it) => it.workflow.startsWith(`${flow}/`)).reverse();
  const line = gate?.line?.count ?? 0;
  return html`<${Drawer} wide title=${html`${kindOf(slot) === 'session' ? 'Session' : kindOf(slot)} <code>${id}</code> <span class="faint">in ${flow}</span>`} close=${close}>
    <p>${gate && gate.inside > 0 ? html`<b class="go-text">${gate.inside} inside</b>` : '0 inside'}, ${line > 0 ? html`<b class="wait-text">${count(line)} queued</b>, the oldest <${Ago} at=${gate.line.since} />` : '0 queued'}.
      ${slot === 'session' && html` <a href=${to('try', { kind: 'request', flow, session: id })}>Send a request</a>`}</p>
    <section><h3>Live requests</h3>
      ${notYet(runs) ?? (listed.length === 0
        ? html`<p class="faint">None. Ended requests of this flow are under <a href=${to('runs', { text: `${flow}/` })}>Runs</a>.</p>`
        : html`<table class="table" aria-label="Requests, oldest first"><tbody>${listed.map((/** @type {any} */ run) => html`<${Request} key=${run.id} run=${run} gate=${gate} flow=${flow} />`)}</tbody></table>
          ${listed.length >= SHOWN && html`<p class="faint">The newest ${SHOWN} are shown.</p>`}`)}</section>
    ${slot === 'session' && html`<${Document} flow=${flow} app=${app} id=${id} />`}
  </${Drawer}>`;
}
