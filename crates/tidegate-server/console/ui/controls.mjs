// Describes each control of a definition in one sentence.
import { plural } from '../lib/format.mjs';

/** Duration without zero parts: `4 s`, `1.5 s`, `1 min 30 s`, `24 h`. @param {number} ms */
export function lasting(ms) {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${Number((ms / 1000).toFixed(3))} s`;
  const parts = /** @type {[number, string][]} */ ([
    [Math.floor(ms / 86_400_000), 'd'],
    [Math.floor(ms / 3_600_000) % 24, 'h'],
    [Math.floor(ms / 60_000) % 60, 'min'],
    [Number(((ms % 60_000) / 1000).toFixed(3)), 's'],
  ]);
  return parts.filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(' ');
}

const UNITS = /** @type {Record<number, string>} */ ({ 1000: 'second', 60000: 'minute', 3600000: 'hour', 86400000: 'day' });

/** `10 per minute`, `3 per 5 s`. @param {number | string} limit @param {number} perMs */
export const rate = (limit, perMs) => `${limit} per ${UNITS[perMs] ?? lasting(perMs)}`;

/** @param {any} key path, the names in it, several paths, or an expression @returns {string} */
export const path = (key) => {
  if (Array.isArray(key)) return key.join(' › ');
  if (key?.paths) return key.paths.map(path).join(', ');
  return key?.expr ?? key?.function ?? String(key);
};

/** @param {unknown} key */
const each = (key) => (key === undefined || key === null ? '' : ` for each ${path(key)}`);

/** Units that a run takes: `2 units`, or the path of their number. @param {number | string | string[]} [cost] */
const unitsOf = (cost = 1) => (typeof cost === 'number' ? plural(cost, 'unit') : `\`${path(cost)}\` units`);

/** @param {any} it */
const priced = ({ cost }) => (cost === undefined ? '' : `, each run takes ${unitsOf(cost)}`);

/** A limit's number, of units where runs have costs. @param {any} it */
const most = (it) => `${amount(it.limit)}${it.cost === undefined ? '' : ' units'}`;

/** A number, or where each run has it. @param {any} it */
const amount = (it) => (it?.from === undefined ? it : `\`${path(it.from)}\` (${it.min} to ${it.max})`);

/** @param {any} it */
const shifted = ({ shiftMs }) => {
  if (shiftMs?.from !== undefined) return `Queued as if it had arrived \`${path(shiftMs.from)}\` ms earlier (${shiftMs.min} to ${shiftMs.max})`;
  return `Queued as if it had arrived ${lasting(Math.abs(shiftMs))} ${shiftMs < 0 ? 'later' : 'earlier'}`;
};

/** @param {any} it */
const together = ({ limit, burst }, usual = limit) => {
  const most = amount(burst ?? usual);
  return typeof most === 'string' || most > 1 ? `, burst of ${most}` : ', no burst';
};

/** @param {any} it */
const meet = (it) => ` for each ${path(it.key ?? 'session')}`;

/** Behaviour of an action while another request is in flight. @type {Record<string, (it: any) => string>} */
const POLICIES = {
  allow: () => 'Requests run concurrently',
  queue: (it) => `One request at a time${meet(it)}; others are queued, first come, first served${it.maxWaitMs ? `, for at most ${lasting(it.maxWaitMs)}` : ''}${bound(it)}`,
  reject: (it) => `One request at a time${meet(it)}; others are rejected with the id of the one in flight`,
  restart: (it) => `One request at a time${meet(it)}; a new one replaces the one in flight`,
  latest: (it) => `One request at a time${meet(it)}; the newest waits and replaces one that has not started`,
  debounce: (it) => `One run${meet(it)} after ${lasting(it.periodMs)} without requests${it.maxWaitMs ? `, at most ${lasting(it.maxWaitMs)} after the first` : ''}; it gets the last request`,
};

/** Treatment of runs of an older version. @type {Record<string, string>} */
const ON_NEW = {
  supersede: 'the first run of a newer version cancels older ones that have started; the rest move to its version',
  drain: 'runs of a newer version wait until the older ones have ended',
  coexist: 'each version is counted separately',
};

/** The bound of a queue. @param {any} it */
const bound = ({ queue }) => {
  if (!queue) return '';
  /** @type {Record<string, string>} */
  const others = { dropOldest: 'the first of them is displaced', dropNewest: 'the last of them is displaced' };
  return `, at most ${queue.maxWaiting}; beyond that ${others[queue.onOverflow] ?? 'they are rejected'}`;
};

/** How the values of a key take turns in a queue. @param {any} it */
const turns = ({ fair }) => {
  if (!fair) return '';
  const weights = Object.entries(fair.weights ?? {}).map(([value, weight]) => `${value} ${weight}`);
  const shown = weights.slice(0, 3).join(', ') + (weights.length > 3 ? ' and others' : '');
  const others = (fair.defaultWeight ?? 1) > 1 ? [`all others ${fair.defaultWeight}`] : [];
  const listed = [shown, ...others].filter(Boolean).join(', ');
  return ` in turns${each(fair.by)}${listed ? `, by weight (${listed})` : ''}`;
};

/** How a limit follows the called service. @param {any} it */
const adapting = ({ adaptive }) => (adaptive ? ` to begin with (adaptive, ${adaptive.min} to ${adaptive.max})` : '');

/** What a new run does while another is live. @type {Record<string, string>} */
const MODES = {
  skip: 'others are skipped until it ends',
  cancel: 'a new one replaces it',
  latest: 'the newest waits for it once it has started, and replaces it before',
};

/** @param {any} it */
function debounced(it) {
  const quiet = `${lasting(it.periodMs)} without events${it.maxWaitMs ? `, at most ${lasting(it.maxWaitMs)} after the first` : ''}`;
  const size = it.maxSize ? `, or at ${it.maxSize} events` : '';
  const kept = { first: 'the first event', all: 'all events' }[String(it.keep)] ?? 'the last event';
  if (it.edge === 'leading') return `One run${each(it.key)} at the first event; the next after ${quiet}`;
  if (it.edge === 'both') return `One run${each(it.key)} at the first event, and one for the others after ${quiet}${size}; it gets ${kept === 'the first event' ? 'the first of them' : kept === 'all events' ? 'all of them' : 'the last event'}`;
  return `One run${each(it.key)} after ${quiet}${size}; it gets ${kept}`;
}

/** Paths of an event, with those of the run where they differ. @param {Record<string, string | string[]>} match */
const pairs = (match) =>
  Object.entries(match ?? {})
    .map(([theirs, own]) => (theirs === `${own}` ? theirs : `${theirs} (${[own].flat().join(' › ')} of the run)`))
    .join(' and ');

/** One sentence per control. @type {Record<string, (it: any) => string>} */
const SENTENCES = {
  concurrency: (it) =>
    it.span === 'run'
      ? `At most ${most(it)} live at once${adapting(it)}${each(it.key)}, from admission to end${priced(it)}; others are queued${turns(it)}${bound(it)}`
      : `At most ${most(it)} at once${adapting(it)}${each(it.key)}${priced(it)}; others are queued${turns(it)}${bound(it)}`,
  policy: (it) => (POLICIES[it.key === 'none' ? 'allow' : it.policy] ?? (() => `Policy ${it.policy}`))(it),
  throttle: (it) => `Starts at most ${rate(most(it), it.perMs)}${each(it.key)}${together(it, 1)}${priced(it)}; others are queued${turns(it)}`,
  rateLimit: (it) => `Accepts at most ${rate(most(it), it.perMs)}${each(it.key)}${together(it)}${priced(it)}; events over the limit are dropped`,
  debounce: (it) => debounced(it),
  batch: (it) => `One run for many events${each(it.key)}: at ${it.maxSize} events, or ${lasting(it.timeoutMs)} after the first${it.if ? `; an event gets its own run unless ${it.if}` : ''}`,
  priority: shifted,
  singleton: (it) => `One live run${each(it.key)}; ${MODES[it.mode] ?? MODES.cancel}`,
  startWithinMs: (it) => `Cancelled as expired unless it starts within ${lasting(it.startWithinMs)} of being queued`,
  cancelOn: (it) => `Cancelled by an event ${it.event} with the same ${pairs(it.match)}${it.withinMs ? `, within ${lasting(it.withinMs)}` : ''}`,
  idempotency: (it) => `One run${each(it.key)} within ${lasting(it.periodMs ?? 86_400_000)}; repeats are deduped`,
  handoff: (it) => `One live run${each(it.keyField)} across all versions; ${ON_NEW[it.onNewVersion] ?? it.onNewVersion}${bound(it)}`,
};

/** Types of the fields that a form can change. */
const NUMERIC = ['count', 'amount', 'duration', 'shift'];

/** Numeric fields of the policies, in order; those of the controls are in the server's table. @type {Record<string, string[]>} */
const POLICY_NUMBERS = { queue: ['maxWaitMs'], debounce: ['periodMs', 'maxWaitMs'] };

/** @typedef {import('../lib/controls.mjs').Table} Table */

/**
 * @typedef {{ control: string, at: (string | number)[], it: any, numbers: string[], needed: string[], sentence: string }} Control
 *   `control`: name as in the gates; `at`: path in the definition of the object with `numbers`; `needed`: the required ones of `numbers`
 */

/** Numbers inside other fields that a form can change: a fixed cost, the bound of a queue, the weight of values without one, the range of an adaptive limit. @param {any} it @param {import('../lib/controls.mjs').Row | undefined} row */
function furtherOf(it, row) {
  const has = (/** @type {string} */ field) => row?.fields.some(({ name }) => name === field);
  return [has('cost') && typeof (it.cost ?? 1) === 'number' && 'cost', has('queue') && !it.pool && 'queue.maxWaiting',
    it.fair && 'fair.defaultWeight', it.adaptive && 'adaptive.min', it.adaptive && 'adaptive.max'].filter((name) => typeof name === 'string');
}

/** @param {string} name @param {any} written @param {(string | number)[]} at @param {Table} table @returns {Control} */
function one(name, written, at, table) {
  const it = typeof written === 'number' ? { [name]: written } : typeof written === 'string' ? { policy: written } : written;
  const control = name !== 'concurrency' ? name : it.policy ? 'policy' : it.type ? 'handoff' : name;
  const row = table.controls.find((row) => row.name === control);
  const numeric = (row?.fields ?? []).filter(({ name, type }) => NUMERIC.includes(`${type}`) && typeof it[name] !== 'object');
  const own = control === 'policy' ? (POLICY_NUMBERS[it.policy] ?? []) : numeric.map((field) => field.name);
  const numbers = typeof written !== 'object' && typeof written !== 'number' ? [] : (it.pool ? [] : own).concat(furtherOf(it, row));
  const needed = numeric.filter((field) => field.default === undefined).map((field) => field.name);
  return { control, at: typeof written === 'number' ? [] : at, it, numbers, needed, sentence: it.pool ? `Takes ${unitsOf(it.cost)} of the ${control} of pool ${it.pool}${each(it.key)}` : SENTENCES[control]?.(it) ?? plain(it, row) };
}

/** Sentence for a control that has none here: its purpose and its settings. @param {any} it @param {{ purpose: string } | undefined} row */
const plain = (it, row) => `${row ? `${row.purpose[0].toUpperCase()}${row.purpose.slice(1)}: ` : ''}${JSON.stringify(it)}`;

/** Names that the controls of a definition can have. @param {Table} table */
export const namesOf = (table) => [...table.controls.map((row) => row.name), 'policy'];

/** Position in the order in which the controls act. A policy, which is no row, acts before the next row that has gates. @param {string} control @param {Table} table */
function rankOf(control, { controls, gates }) {
  const position = (/** @type {string} */ name) => controls.findIndex((row) => row.name === name);
  if (position(control) >= 0) return position(control);
  const next = gates.slice(gates.indexOf(control) + 1).map(position).find((at) => at >= 0);
  return (next ?? controls.length) - 0.5;
}

/** Every control of a workflow, in the order in which they act. @param {any} flowControl @param {Table} table @returns {Control[]} */
export function controlsOf(flowControl, table) {
  const all = Object.entries(flowControl ?? {}).flatMap(([name, written]) =>
    Array.isArray(written) ? written.map((part, i) => one(name, part, [name, i], table)) : [one(name, written, [name], table)]);
  return all.sort((a, b) => rankOf(a.control, table) - rankOf(b.control, table));
}

/** Limit of a gate: `2 at once`, `3 per second, burst 5`. @param {any} gate */
export function letsIn(gate) {
  if (gate.perMs) return `${rate(gate.limit, gate.perMs)}, ${gate.burst > 1 ? `burst ${gate.burst}` : 'no burst'}`;
  if (gate.limit !== undefined) return `${gate.limit} at once`;
  return gate.letsIn ?? '';
}
