import { html } from '../../lib/html.mjs';
import { to } from '../../lib/route.mjs';

/** Triggers of a workflow. @param {{ workflow: any, short?: boolean }} props */
export function Triggers({ workflow, short }) {
  const all = /** @type {any[]} */ (workflow.triggers ?? []);
  const action = workflow.name.includes('/');
  const parts = all.map((it) => one(it));
  // Without triggers, a workflow is started by events of its own name, and an action by requests.
  if (action) parts.unshift(html`<span class="soft">requests</span>`);
  else if (all.length === 0) parts.push(one(workflow.name));
  const shown = short ? parts.slice(0, 2) : parts;
  return html`${shown.map((it, i) => html`${i > 0 ? ', ' : ''}${it}`)}${shown.length < parts.length ? ` +${parts.length - shown.length}` : ''}`;
}

/** Names of the events that start a workflow. @param {any} workflow @returns {string[]} */
export function events({ name, triggers }) {
  const all = /** @type {any[]} */ (triggers ?? []);
  return all.length === 0 ? [name] : all.map((it) => (typeof it === 'string' ? it : it.event)).filter(Boolean);
}

/** @param {any} trigger */
function one(trigger) {
  const event = typeof trigger === 'string' ? trigger : trigger.event;
  const when = trigger.if ? html` <span class="soft">if <code>${trigger.if}</code></span>` : '';
  if (event) return html`<a href=${to('events', { name: event })}><code>${event}</code></a>${when}`;
  if (trigger.cron) return html`<span class="soft">cron <code>${trigger.cron}</code>${trigger.timezone ? ` ${trigger.timezone}` : ''}</span>`;
  return html`<code>${JSON.stringify(trigger)}</code>`;
}
