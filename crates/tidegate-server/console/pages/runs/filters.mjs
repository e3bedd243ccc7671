import { html, useState } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';
import { count } from '../../lib/format.mjs';
import { counts } from '../../lib/live.mjs';
import { route, setQuery, to } from '../../lib/route.mjs';
import { Choose, Search } from '../../ui/field.mjs';
import { SINCE, STATES, narrowed } from './which.mjs';

/** @type {Record<string, 'inFlight' | 'queued' | 'waiting' | 'paused'>} */
const COUNTED = { running: 'inFlight', queued: 'queued', waiting: 'waiting', paused: 'paused' };

/** Query parameters of all filters, unset. */
const NONE = Object.fromEntries(['app', 'workflow', 'version', 'state', 'key', 'event', 'text', 'since', 'from', 'to'].map((it) => [it, undefined]));

/** Status chips, with the number of runs for live ones. */
export function States() {
  const { query } = route.value;
  const given = query.get('state') ?? '';
  const plain = !['app', 'workflow', 'version', 'key', 'event', 'text', 'since', 'from', 'to'].some((it) => query.get(it));
  return html`<nav class="chips" aria-label="Status">${['', ...STATES].map((state) => {
    const many = plain && COUNTED[state] ? counts.value[COUNTED[state]] : 0;
    return html`<a href=${to('runs', { ...Object.fromEntries(query), state })} class="chip" aria-current=${state === given ? 'true' : undefined}>${state || 'all'}${
      many > 0 ? html` <b class="num">${count(many)}</b>` : null}</a>`;
  })}</nav>`;
}

/** @param {{ name: string, label: string }} props */
function Moment({ name, label }) {
  const given = route.value.query.get(name);
  // The input needs local time without a time zone.
  const date = given ? new Date(given) : null;
  const local = date && !Number.isNaN(date.getTime()) ? new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19) : '';
  /** @param {Event} event */
  function chosen(event) {
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    setQuery({ [name]: value ? new Date(value).toISOString() : undefined });
  }
  return html`<label class="field"><span>${label}</span><input type="datetime-local" step="1" value=${local} onChange=${chosen} /></label>`;
}

export function Filters() {
  const { query } = route.value;
  const [open, setOpen] = useState(narrowed(query));
  const told = useFetched('/workflows', {}, { live: false });
  const all = /** @type {any[]} */ (told.value?.workflows ?? []);
  const apps = [...new Set(all.map((it) => it.app))];
  const app = query.get('app');
  const mine = app ? all.filter((it) => it.app === app) : all;
  const given = query.get('workflow') ?? '';
  const names = [...new Set([...mine.map((it) => it.name), ...(given ? [given] : [])])].sort();
  const versions = mine.find((it) => it.name === given)?.versions ?? [];
  const spans = query.get('from') || query.get('to') ? 'between' : (query.get('since') ?? '');
  /** @param {Event} event */
  function time(event) {
    const { value } = /** @type {HTMLSelectElement} */ (event.target);
    const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000).toISOString();
    setQuery(value === 'between' ? { since: undefined, from: hour } : { since: value || undefined, from: undefined, to: undefined });
  }
  return html`<${States} />
    <button type="button" class="only-phone" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? 'Fewer filters' : 'Filters'}</button>
    <div class=${`filters runs-filters${open ? '' : ' folded'}`}>
      <${Search} main name="text" label="Workflow name contains" placeholder="part of name ( / )" />
      ${apps.length > 1 && html`<${Choose} name="app" label="App" words=${apps} />`}
      <${Choose} name="workflow" label="Workflow" words=${names} />
      ${(versions.length > 1 || query.get('version')) && html`<${Choose} name="version" label="Version" words=${[...new Set([...versions.map(String), query.get('version')])].filter(Boolean).map((it) => [it, `v${it}`])} />`}
      <${Search} name="key" label="Gate key" placeholder="acme" />
      <${Search} name="event" label="Event id" placeholder="evt_…" />
      <label class="field"><span>Queued</span><select value=${spans} onChange=${time}>
        <option value="">any time</option>
        ${SINCE.map(([name, text]) => html`<option value=${name} selected=${name === spans}>${text}</option>`)}
        <option value="between" selected=${spans === 'between'}>custom range</option></select></label>
      ${spans === 'between' && html`<${Moment} name="from" label="From" /><${Moment} name="to" label="To" />`}
      ${narrowed(query) && html`<button type="button" class="quiet" onClick=${() => setQuery(NONE)}>Clear filters</button>`}
    </div>`;
}
