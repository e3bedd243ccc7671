// Audit log: every change that operators made through the API, the command line or the console.
import { html } from '../lib/html.mjs';
import { useList } from '../lib/data.mjs';
import { route, setQuery, to } from '../lib/route.mjs';
import { Drawer } from '../ui/drawer.mjs';
import { Empty, Failed, Stale } from '../ui/empty.mjs';
import { Search } from '../ui/field.mjs';
import { Json } from '../ui/json.mjs';
import { Table } from '../ui/table.mjs';
import { Time } from '../ui/time.mjs';
import { words } from './gates/preview.mjs';

/** @typedef {{ id: string, at: string, author?: string, address?: string, operation: string, subject: string, before?: any, after?: any }} Change */

/** Target of an override, or null if the subject is no target. @param {string} subject @returns {Record<string, any> | null} */
function targetOf(subject) {
  try {
    const target = JSON.parse(subject);
    return target?.workflow || target?.pool ? target : null;
  } catch {
    return null;
  }
}

/** Object of a change in words. @param {string} subject */
function object(subject) {
  const target = targetOf(subject);
  if (!target) return subject;
  const { pool, workflow, control, path, key, keyPrefix, value } = target;
  const keyed = key !== undefined ? `${path ?? 'key'} = ${key}` : keyPrefix !== undefined ? `${path ?? 'key'} = ${keyPrefix}*` : value !== undefined ? `turns of ${value}` : path;
  return [pool ? `pool ${pool}` : workflow, control ?? 'starts', keyed].filter((it) => it !== undefined).join(' · ');
}

/** What has changed, in words. @param {Change} it */
function change({ operation, before, after }) {
  if (operation.endsWith('Override')) return `${words(before)} → ${words(after)}`;
  return after === undefined ? '' : JSON.stringify(after);
}

const columns = /** @type {import('../ui/table.mjs').Column[]} */ ([
  { name: 'At', of: (it) => html`<${Time} at=${it.at} />` },
  { name: 'Author', hide: true, of: (it) => it.author ?? html`<span class="faint" title="no API key, or a change by the engine">–</span>` },
  { name: 'Operation', of: (it) => html`<b>${it.operation}</b>` },
  { name: 'Object', of: (it) => html`<span title=${it.subject}>${object(it.subject)}</span>` },
  { name: 'Change', hide: true, of: (it) => html`<span class="soft">${change(it)}</span>` },
]);

/** Details of one change. @param {{ it: Change }} props */
const Details = ({ it }) => html`<${Drawer} title=${it.operation} close=${() => setQuery({ open: undefined })}>
  <dl class="pairs">
    <dt>At</dt><dd><${Time} at=${it.at} /></dd>
    <dt>Author</dt><dd>${it.author ?? 'none: no API key, or a change by the engine'}</dd>
    <dt>Address</dt><dd>${it.address ?? 'none'}</dd>
    <dt>Object</dt><dd>${object(it.subject)} <a href=${to('audit', { subject: it.subject })}>all changes of it</a></dd>
  </dl>
  <section><h3>Before</h3><${Json} value=${it.before} label="Before" /></section>
  <section><h3>After</h3><${Json} value=${it.after} label="After" /></section>
</${Drawer}>`;

export default function Audit() {
  const { query } = route.value;
  const asked = Object.fromEntries(['author', 'operation', 'subject'].map((name) => [name, query.get(name)?.trim() || undefined]));
  const list = useList('/audit', 'changes', { ...asked, limit: 100 }, (it) => it.id);
  const opened = list.items.find((it) => it.id === query.get('open'));
  const seen = (/** @type {string} */ name) => [...new Set(list.items.map((it) => it[name]).filter(Boolean))].sort();
  return html`
    <div class="page-head"><h1>Audit log</h1><p>Changes by operators: who, when, from which address, and what was in force before and after.</p></div>
    <div class="filters">
      <${Search} main name="author" label="Author" placeholder="name of an API key" list=${seen('author')} />
      <${Search} name="operation" label="Operation" placeholder="setOverride" list=${seen('operation')} />
      ${asked.subject && html`<p class="field"><span>Object</span><button type="button" title="Show changes of all objects" onClick=${() => setQuery({ subject: undefined })}>${object(asked.subject)} ✕</button></p>`}
    </div>
    ${list.items.length > 0 && html`<${Stale} error=${list.error} />`}
    ${list.items.length > 0 ? html`<div class="audit"><${Table} label="Changes" columns=${columns} rows=${list.items} idOf=${(/** @type {Change} */ it) => it.id} chosen=${query.get('open')}
        open=${(/** @type {Change} */ it) => setQuery({ open: it.id })} more=${list.next ? list.more : null} busy=${list.busy} /></div>`
      : list.error ? html`<${Failed} error=${list.error} again=${list.again} />`
      : list.loading ? html`<div class="empty" aria-busy="true">Loading …</div>`
      : Object.values(asked).some(Boolean) ? html`<${Empty} title="No matching changes"><button type="button" onClick=${() => setQuery({ author: undefined, operation: undefined, subject: undefined })}>Clear filters</button></${Empty}>`
      : html`<${Empty} title="No changes yet">Overrides, pauses, releases, cancellations and other changes by operators are listed here.</${Empty}>`}
    ${opened && html`<${Details} it=${opened} />`}`;
}
