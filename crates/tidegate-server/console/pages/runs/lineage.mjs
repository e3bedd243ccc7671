import { html } from '../../lib/html.mjs';
import { to } from '../../lib/route.mjs';
import { EventLink, RunLink } from '../../ui/link.mjs';
import { State } from '../../ui/state.mjs';

/** @param {any} it an id, or a run */
const run = (it) => (typeof it === 'string' ? html`<${RunLink} id=${it} />` : html`<${RunLink} id=${it.id} />${it.workflow ? html` <span class="soft">${it.workflow}</span>` : ''}${it.state ? html` <${State} state=${it.state} />` : ''}`);

/** Origin of a run, and the runs that followed from it. @param {{ run: any }} props */
export function Lineage({ run: of }) {
  const children = /** @type {any[]} */ (of.children ?? []);
  const rows = /** @type {[string, any][]} */ ([
    ['Triggered by', of.source === 'request' && html`request <b>${of.name}</b>`],
    ['Triggered by', of.source === 'cron' && html`schedule <code>${of.name}</code>`],
    ['Event', of.eventId && (!of.source || of.source === 'event') && html`${of.name && html`<b>${of.name}</b> `}<${EventLink} id=${of.eventId} /> <a class="aside" href=${to('runs', { event: of.eventId })}>all runs of this event</a>`],
    ['Child of', of.parent && run(of.parent)],
    ['Replay of', of.replayOf && run(of.replayOf)],
    ['Replaced', of.replaced && run(of.replaced)],
    ['Replaced by', of.replacedBy && run(of.replacedBy)],
    ['Duplicate of', of.survivor && run(of.survivor)],
    ['Handles the failure of', of.failureOf && run(of.failureOf)],
    ['Compensates', of.compensates && run(of.compensates)],
    ['Takeovers', of.takeovers > 0 && html`${of.takeovers} <span class="soft">from engines that stopped heartbeating</span>`],
    ['Children', children.length > 0 && html`<ul class="children">${children.map((it) => html`<li>${run(it)}</li>`)}</ul>`],
  ]).filter(([, value]) => value);
  return html`<dl class="pairs">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}
