// Form for a burst: its number of events or requests, their rate, and the values of a varying
// field.
import { html, useEffect } from '../../lib/html.mjs';
import { get } from '../../lib/api.mjs';
import { plural } from '../../lib/format.mjs';
import { keysOf } from '../../lib/workflows.mjs';
import { MOST, at, pathsOf, valuesOf } from './plan.mjs';

/** @typedef {import('../../lib/workflows.mjs').Workflow} Workflow */

/** Fields that can be varied, key fields of controls first. @param {any} draft @param {any} data @param {Workflow[]} takers */
function fieldsOf(draft, data, takers) {
  const keys = takers.flatMap(keysOf);
  const own = draft.kind === 'event' ? pathsOf(data) : ['session', 'user', ...pathsOf(data).map((it) => `input.${it}`)];
  return [...new Set([...keys, ...own])];
}

/** Values of the field at existing gates, and its current value. @param {string} field @param {any} draft @param {any} data @param {Workflow[]} takers */
async function known(field, draft, data, takers) {
  const workflow = draft.kind === 'event' ? takers[0]?.name : draft.flow;
  const told = workflow ? await get('/gates', { workflow, limit: 50 }).catch(() => null) : null;
  const keys = (told?.gates ?? []).filter((/** @type {any} */ gate) => gate.slot === field && !gate.key.startsWith('(')).map((/** @type {any} */ gate) => gate.key);
  const there = draft.kind === 'event' ? at(data, field) : at({ input: data, session: draft.session, user: draft.user }, field);
  const values = [...new Set([...keys, ...(there !== undefined && there !== '' ? [String(there)] : [])])].slice(0, 12);
  return values.length > 0 ? values.join(', ') : '1..10';
}

/** @param {{ draft: import('./plan.mjs').Draft & import('./plan.mjs').Burst, change: (change: any) => void, data: any, takers: Workflow[] }} props */
export function BurstForm({ draft, change, data, takers }) {
  const fields = fieldsOf(draft, data, takers);
  useEffect(() => {
    if (draft.on && !draft.field && fields.length > 0) change({ field: fields[0] });
  }, [draft.on, fields.length > 0]);
  useEffect(() => {
    if (!draft.on || !draft.field || draft.values) return;
    let over = false;
    known(draft.field, draft, data, takers).then((values) => !over && change({ values }));
    return () => {
      over = true;
    };
  }, [draft.on, draft.field]);
  const n = valuesOf(draft.values).length;
  return html`<fieldset class="group">
    <legend><label class="check"><input type="checkbox" checked=${draft.on} onChange=${(/** @type {any} */ e) => change({ on: e.target.checked })} /> <b>Send a burst</b></label></legend>
    ${draft.on && html`<div class="stack tight">
      <div class="pair">
        <label class="field"><span>Count (up to ${MOST})</span><input type="number" min="1" max=${MOST} required value=${draft.n} onInput=${(/** @type {any} */ e) => change({ n: Math.min(MOST, Number(e.target.value) || 1) })} /></label>
        <label class="field"><span>Rate</span><select value=${String(draft.rate)} onChange=${(/** @type {any} */ e) => change({ rate: Number(e.target.value) })}>
          ${[[0, 'all at once'], [2, '2 per second'], [5, '5 per second'], [10, '10 per second'], [25, '25 per second'], [50, '50 per second'], [100, '100 per second']].map(([rate, text]) => html`<option value=${rate} selected=${rate === draft.rate}>${text}</option>`)}</select></label>
      </div>
      <div class="pair">
        <label class="field"><span>Varying field</span><input list="try-fields" value=${draft.field} spellcheck=${false} placeholder="none" onInput=${(/** @type {any} */ e) => change({ field: e.target.value })} />
          <datalist id="try-fields">${fields.map((it) => html`<option value=${it} />`)}</datalist></label>
        <label class="field"><span>Distribution</span><select value=${draft.how} onChange=${(/** @type {any} */ e) => change({ how: e.target.value })}>
          ${[['even', 'round robin'], ['random', 'random'], ['first', '80 % first value']].map(([how, text]) => html`<option value=${how} selected=${how === draft.how}>${text}</option>`)}</select></label>
      </div>
      <label class="field"><span>Values: a list or a range ${n > 0 && html`<b>(${plural(n, 'value')})</b>`}</span>
        <input value=${draft.values} spellcheck=${false} placeholder="acme, globex or user-1..50" onInput=${(/** @type {any} */ e) => change({ values: e.target.value })} /></label>
      <p class="faint"><code>{i}</code> in a string of the data is replaced by the number of the event.</p>
    </div>`}
  </fieldset>`;
}
