import { html, useRef, useState } from '../../lib/html.mjs';
import { table } from '../../lib/controls.mjs';
import { useFetched } from '../../lib/data.mjs';
import { count, plural } from '../../lib/format.mjs';
import { busiest } from '../../lib/live.mjs';
import { go, to } from '../../lib/route.mjs';
import { path } from '../../ui/controls.mjs';
import { Pool } from '../../ui/pool.mjs';
import { Badge } from '../../ui/state.mjs';
import { useFound } from '../gates/find.mjs';
import { gateAddress, idOf, isBusy } from '../gates/gate.mjs';
import { Lanes } from '../gates/lanes.mjs';
import { useLinger } from '../gates/linger.mjs';
import { Weights } from '../gates/weights.mjs';
import { Change } from './change.mjs';

/** Number of gates fetched per control, and number of gates drawn. */
const LOOKED = 100;
const DRAWN = 4;
const NONE = /** @type {Gate[]} */ ([]);

/** @typedef {import('../gates/gate.mjs').Gate} Gate @typedef {import('../../ui/controls.mjs').Control} Control */

/**
 * One control: its sentence, its live numbers, and its busiest gates.
 *
 * @param {{ control: Control, workflow: any, folding: any, changeable: boolean, again: () => void }} props
 */
export function ControlCard({ control, workflow, folding, changeable, again }) {
  const [changes, setChanges] = useState(false);
  const { control: name, it, sentence, numbers } = control;
  const has = table.value.gates.includes(name) && it.policy !== 'allow' && name !== 'idempotency';
  const { app, name: of } = workflow;
  const whose = it.pool ? { pool: it.pool } : { app, workflow: of };
  const fetched = useFetched(has ? '/gates' : null, { ...whose, control: name, limit: LOOKED });
  // The gate of a limit without a key is listed after the gates of all keys, so it may not be on
  // the first page.
  const behind = !it.pool && name === 'concurrency' && it.key === undefined && control.at.length > 1;
  const whole = useFound(behind && fetched.value?.next ? { app, workflow: of, control: name, key: '(whole)' } : null, (gate) => mine(control, gate));
  /** @type {Map<string, Gate>} */
  const known = new Map(busiest.value.filter((gate) => (it.pool ? gate.pool === it.pool : gate.app === app && gate.workflow === of) && gate.control === name).map((gate) => [idOf(gate), gate]));
  for (const gate of useLinger(fetched.value?.gates ?? NONE, of)) known.set(idOf(gate), gate);
  if (whole.gate) known.set(idOf(whole.gate), whole.gate);
  const gates = [...known.values()].filter((gate) => mine(control, gate));
  const shown = useFew(gates);
  return html`<div class="control-card">
    <div class="head-line"><${Badge} tone="accent">${name === 'policy' ? `policy ${it.policy}` : name}</${Badge}>
      ${changeable && numbers.length > 0 && !changes && html`<button type="button" class="change" onClick=${() => setChanges(true)} aria-label=${`Change ${name}`}>Change</button>`}</div>
    ${!changes && html`<p class="lead">${sentence}.</p>`}
    ${it.pool && html`<${Pool} name=${it.pool} control=${name} />`}
    ${changes && html`<${Change} ...${{ control, workflow }} done=${() => { setChanges(false); again(); }} close=${() => setChanges(false)} />`}
    ${it.fair && !it.pool && !changes && (it.key === undefined || typeof slotOf(it) === 'string') && html`<${Weights} target=${limitOf(control, workflow)} by=${path(it.fair.by)} />`}
    ${has && html`<p class="soft num">${whole.looking ? 'Loading the gate …' : told(name, gates, folding, Boolean(fetched.value?.next) && !behind)}</p>`}
    ${shown.length > 0 && html`<${Lanes} gates=${shown} label=${`Gates: ${sentence}`} chosen=${null} brief workflows=${[workflow]} open=${(/** @type {Gate} */ gate) => go(gateAddress(gate))} />
`}
    ${gates.length > 0 && html`<p class="faint"><a href=${to('gates', it.pool ? { control: name, pool: it.pool } : { control: name, workflow: of, app: app === 'default' ? undefined : app })}>${gates.length > shown.length ? `Show all ${fetched.value?.next ? '' : `${count(gates.length)} `}gates` : 'Show in Gates'}</a></p>`}
    ${name === 'idempotency' && html`<p class="faint"><a href=${to('gates', { control: name, workflow: of, app: app === 'default' ? undefined : app })}>Show claimed keys</a></p>`}
  </div>`;
}

/** Whether a gate belongs to this one of several limits, which differ by their key path. @param {Control} control @param {Gate} gate */
function mine({ control, it }, gate) {
  if (it.pool || gate.pool) return gate.pool === it.pool;
  if (control !== 'concurrency') return true;
  return (gate.slot ?? '') === (slotOf(it) ?? '');
}

/** Target of the overrides of a limit. @param {Control} control @param {{ app: string, name: string }} workflow */
const limitOf = ({ control, it }, { app, name }) => ({ app, workflow: name, control, span: it.span === 'run' ? 'run' : undefined, path: slotOf(it) });

/** Path of a limit's key as gates and overrides spell it. @param {any} it */
const slotOf = ({ key }) => (Array.isArray(key) ? key.join('.') : key);

/** Busiest gates; each keeps its position while it is busy. @param {Gate[]} gates */
function useFew(gates) {
  const order = useRef(/** @type {string[]} */ ([]));
  const by = new Map(gates.map((gate) => [idOf(gate), gate]));
  const busy = gates.length > DRAWN ? gates.filter(isBusy) : gates;
  const wanted = new Set(busy.map(idOf));
  const kept = order.current.filter((id) => wanted.has(id));
  const others = busy.filter((gate) => !kept.includes(idOf(gate))).sort((a, b) => weight(b) - weight(a)).map(idOf);
  order.current = kept.concat(others).slice(0, DRAWN);
  return order.current.map((id) => /** @type {Gate} */ (by.get(id)));
}

/** Sort weight: activity at a gate. @param {Gate} gate */
const weight = (gate) => (gate.line?.count ?? 0) * 1000 + (gate.inside ?? 0) * 10 + (gate.pending ?? 0) + (isBusy(gate) ? 1 : 0);

/** @param {string} name @param {Gate[]} gates @param {any} folding @param {boolean} more */
function told(name, gates, folding, more) {
  if (name === 'debounce' || name === 'batch') {
    const { pending = 0, keys = [], atLeast } = folding?.[name] ?? {};
    const folds = plural(keys.length, name === 'batch' ? 'open buffer' : 'open window');
    return keys.length === 0 ? `No ${name === 'batch' ? 'buffered' : 'coalescing'} events.` : `${plural(pending, 'event')}${atLeast ? ' or more' : ''} in ${folds}.`;
  }
  if (gates.length === 0) return 'Idle: nothing is running or queued.';
  const [inside, line] = [gates.reduce((n, it) => n + (it.inside ?? 0), 0), gates.reduce((n, it) => n + (it.line?.count ?? 0), 0)];
  const keys = gates.length === 1 ? '' : more ? ` in the first ${count(gates.length)} keys` : ` across ${plural(gates.length, 'key')}`;
  if (name === 'rateLimit') return `${plural(gates.filter((it) => (it.tokens ?? 0) === 0).length, 'key')} of ${count(gates.length)}${more ? ' or more' : ''} exhausted.`;
  if (name === 'throttle') return `${count(line)} queued${keys}.`;
  const only = gates.length === 1 ? gates[0] : null;
  const limit = only?.limit === undefined ? '' : ` of ${count(only.limit)}`;
  const taken = only?.units === undefined ? `${count(inside)}${limit} inside` : `${count(only.units)}${limit} units taken by ${plural(inside, 'run')}`;
  return `${taken}, ${count(line)} queued${keys}.`;
}
