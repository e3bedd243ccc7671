// Flows: their actions and policies, and the runs inside and queued per session. Also schedules.
import { html } from '../lib/html.mjs';
import { useFetched } from '../lib/data.mjs';
import { route, setQuery, to } from '../lib/route.mjs';
import { actionOf } from '../lib/workflows.mjs';
import { Empty, notYet } from '../ui/empty.mjs';
import { Tabs } from '../ui/tabs.mjs';
import { Actions } from './flows/actions.mjs';
import { Schedules } from './flows/schedules.mjs';
import { Session } from './flows/session.mjs';
import { Sessions } from './flows/sessions.mjs';

/** Up to this number of flows are tabs; more are a select. */
const TABS = 5;

/** @param {{ flows: string[], here: string | null, clock: boolean }} props */
function Which({ flows, here, clock }) {
  const clocks = clock ? [{ text: 'Schedules', href: to('flows', { view: 'schedules' }), here: here === null }] : [];
  if (flows.length <= TABS) {
    const tabs = [...flows.map((name) => ({ text: name, href: to(['flows', name]), here: name === here })), ...clocks];
    return tabs.length > 1 ? html`<${Tabs} label="Flows" tabs=${tabs} />` : null;
  }
  return html`<span class="actions end"><label class="field-inline">Flow <select onChange=${(/** @type {any} */ e) => (location.hash = to(['flows', e.target.value]))}>
      ${flows.map((name) => html`<option value=${name} selected=${name === here}>${name}</option>`)}</select></label>
    ${clock && html`<${Tabs} label="View" tabs=${clocks} />`}</span>`;
}

export default function Flows() {
  const { rest, query } = route.value;
  const told = useFetched('/workflows', {}, { live: false });
  // On an older server without this route the request fails, and no schedules are shown.
  const clock = useFetched('/schedules', { limit: 1 }, { live: false });
  const actions = /** @type {import('../lib/workflows.mjs').Workflow[]} */ (told.value?.workflows ?? []).filter(actionOf);
  const flows = [...new Set(actions.map((it) => it.name.slice(0, it.name.indexOf('/'))))];
  const clocks = query.get('view') === 'schedules' || (flows.length === 0 && (clock.value?.schedules?.length ?? 0) > 0);
  const flow = clocks ? null : (rest[0] ?? query.get('open') ?? flows[0] ?? null);
  const own = actions.filter((it) => it.name.startsWith(`${flow}/`));
  const session = query.get('session');
  return html`
    <div class="page-head"><h1>Flows & Schedules</h1><p>Actions that requests call, arbitrated by session; and cron schedules.</p>
      <${Which} flows=${flows} here=${flow} clock=${clock.value !== null} /></div>
    ${clocks
      ? html`<${Schedules} />`
      : notYet(told) ?? (flow === null
        ? html`<${Empty} title="No flows yet"><p>A flow is a group of actions: workflows that a request starts, with a policy for requests while another one of the same session is in flight.</p>
            <pre>${'[[flow]]\nname = "support"\nconcurrency = "queue"\nactions.respond = { url = "http://127.0.0.1:3000/respond" }'}</pre></${Empty}>`
        : own.length === 0 ? html`<${Empty} title=${`Flow “${flow}” not found`}>Flows: ${flows.map((name) => html`<a href=${to(['flows', name])}>${name}</a> `)}</${Empty}>`
        : html`<div class="stack"><section><h2 class="over">${flow}</h2><${Actions} actions=${own} /></section><section><${Sessions} key=${flow} flow=${flow} /></section></div>
          ${session && html`<${Session} key=${session} flow=${flow} app=${own[0].app} id=${session} slot=${query.get('slot') ?? 'session'} close=${() => setQuery({ session: undefined, slot: undefined })} />`}`)}`;
}
