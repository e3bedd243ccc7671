// Forms that change an override of a gate, or purge its queue: each with a preview of its effect.
import { html, useState } from '../../lib/html.mjs';
import { post, put } from '../../lib/api.mjs';
import { plural } from '../../lib/format.mjs';
import { confirm } from '../../ui/confirm.mjs';
import { act } from '../../ui/toast.mjs';
import { ENDS, endOf } from './ends.mjs';
import { previewed } from './preview.mjs';

/** @typedef {import('./override.mjs').Override} Override @typedef {Record<string, any>} Target */
/** @typedef {'limit' | 'pause' | 'close' | 'purge'} Kind */

/** Numbers of a target's limit, with their labels. @param {Target} target @returns {[string, string][]} */
const numbersOf = ({ control }) => (control === 'concurrency' ? [['limit', 'Limit']] : [['limit', 'Limit'], ['perMs', 'Per, ms'], ['burst', 'Burst']]);

/** Fields that an override has besides those that a form changes. @param {Override | undefined} override */
const fieldsOf = (override) => ({ limit: override?.limit, perMs: override?.perMs, burst: override?.burst, paused: override?.paused, closedUntil: override?.closedUntil });

/** Same target without its key: all keys of the limit. @param {Target} target */
const ofAll = ({ key, ...rest }) => rest;

/** Target of the first starts of runs, or of every entry into a pool. @param {Target} target */
export const startsOf = ({ app, workflow, pool, path, key }) => ({ app, workflow, pool, path, key });

/** Text of a form: its title, its button, and the title of its preview. @param {Kind} kind @param {Target} target @returns {[string, string]} */
const texts = (kind, { pool }) => /** @type {Record<Kind, [string, string]>} */ ({
  limit: ['Change limit', 'Override the limit?'],
  pause: pool ? ['Pause pool', 'Pause all entries into the pool?'] : ['Pause starts', 'Pause first starts?'],
  close: ['Close until', 'Close the gate?'],
  purge: ['Purge queue', 'Purge the queue?'],
})[kind];

/**
 * Form for one change of a gate's target.
 *
 * @param {{ kind: Kind, gate: any, target: Target, overrides: Override[], done: () => void }} props
 */
export function ChangeForm({ kind, gate, target, overrides, done }) {
  const keyed = target.key !== undefined;
  const [all, setAll] = useState(false);
  const [given, setGiven] = useState(/** @type {Record<string, string>} */ ({}));
  const [reason, setReason] = useState('');
  const [end, setEnd] = useState(kind === 'close' ? '15' : '');
  const [at, setAt] = useState('');
  const own = kind === 'pause' ? startsOf(target) : target;
  const of = all ? ofAll(own) : own;
  const before = overrides.find((it) => JSON.stringify(it.target) === JSON.stringify(of));
  const numbers = kind === 'limit' ? numbersOf(target) : [];
  const [title, question] = texts(kind, target);
  const until = endOf(end, at);
  const ready = (kind !== 'limit' || numbers.some(([name]) => Number(given[name]) >= 1)) && until !== '';
  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    const worked = kind === 'purge' ? await purge(of, reason) : await previewed((query, ifEpoch) => put('/overrides', { ...change(), ifEpoch }, query), question);
    if (worked) done();
  }
  // A change replaces the whole override of its target, so its other fields are sent again.
  function change() {
    const kept = fieldsOf(before);
    const why = reason || undefined;
    if (kind === 'close') return { target: of, ...kept, closedUntil: until, reason: why, expiresAt: before?.expiresAt };
    const set = kind === 'pause' ? { paused: true } : Object.fromEntries(numbers.filter(([name]) => given[name]).map(([name]) => [name, Number(given[name])]));
    return { target: of, ...kept, ...set, reason: why, expiresAt: until };
  }
  return html`<form class="change-form" aria-label=${title} onSubmit=${submit}>
    <div class="filters">
      ${numbers.map(([name, label], i) => html`<label class="field"><span>${label}</span>
        <input type="number" min="1" step="1" autofocus=${i === 0} value=${given[name] ?? ''} placeholder=${String(gate[name] ?? '')}
          onInput=${(/** @type {any} */ event) => setGiven({ ...given, [name]: event.target.value })} /></label>`)}
      ${keyed && html`<label class="field"><span>For</span><select onChange=${(/** @type {any} */ event) => setAll(event.target.value === 'all')}>
        <option value="one" selected=${!all}>${target.path ?? 'key'} = ${String(target.key)}</option><option value="all" selected=${all}>all keys</option></select></label>`}
      ${kind !== 'purge' && html`<label class="field"><span>${kind === 'close' ? 'Until' : 'End'}</span><select onChange=${(/** @type {any} */ event) => setEnd(event.target.value)}>
        ${ENDS.filter(([value]) => kind !== 'close' || value !== '').map(([value, text]) => html`<option value=${value} selected=${value === end}>${text}</option>`)}</select></label>`}
      ${end === 'at' && html`<label class="field"><span>Time</span><input type="datetime-local" required value=${at} onInput=${(/** @type {any} */ event) => setAt(event.target.value)} /></label>`}
      <label class="field"><span>Reason</span><input value=${reason} maxlength="500" placeholder="shown by why" onInput=${(/** @type {any} */ event) => setReason(event.target.value)} /></label>
    </div>
    <p class="actions"><button class="primary" disabled=${!ready}>Preview</button><button type="button" onClick=${done}>Cancel</button></p>
  </form>`;
}

/** Cancels the runs that wait at a target, after a preview. @param {Target} target @param {string} reason */
async function purge(target, reason) {
  const body = { target, reason: reason || undefined };
  const seen = await act(() => post('/overrides/purge', body, { dryRun: true }), (it) => `${plural(it.waiting, 'run waits', 'runs wait')}.`);
  if (!seen) return false;
  const runs = `${plural(seen.waiting, 'waiting run')}${seen.atLeast ? ' or more' : ''}`;
  const text = html`<p>${runs} will be cancelled. Runs inside go on, and so do runs that arrive later.</p>`;
  if (seen.waiting === 0 || !(await confirm({ title: 'Purge the queue?', text, yes: `Cancel ${runs}`, no: 'Keep them', bad: true }))) return false;
  const done = await act(() => post('/overrides/purge', { ...body, ifEpoch: seen.epoch }), (it) => `${plural(it.waiting, 'run is', 'runs are')} being cancelled.`);
  return Boolean(done);
}
