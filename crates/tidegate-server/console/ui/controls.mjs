// Controls in words: a definition as its author wrote it becomes the sentences that a reader needs.

/** A span of time without what is nought: `4 s`, `1.5 s`, `1 min 30 s`, `24 h`. @param {number} ms */
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

const UNITS = /** @type {Record<number, string>} */ ({ 1000: 'a second', 60000: 'a minute', 3600000: 'an hour', 86400000: 'a day' });

/** `10 a minute`, `3 in 5 s`. @param {number} limit @param {number} perMs */
export const rate = (limit, perMs) => (UNITS[perMs] ? `${limit} ${UNITS[perMs]}` : `${limit} in ${lasting(perMs)}`);

/** @param {unknown} key a path, or the names in it */
const path = (key) => (Array.isArray(key) ? key.join(' › ') : String(key));

/** @param {unknown} key */
const each = (key) => (key === undefined || key === null ? '' : ` for each ${path(key)}`);

/** @param {any} it */
const together = ({ limit, burst }, usual = limit) => {
  const most = burst ?? usual;
  return most > 1 ? `, up to ${most} together after a quiet time` : ', one at a time';
};

/** @param {any} it */
const meet = (it) => ` for each ${path(it.key ?? 'session')}`;

/** What an action does when another request is busy. @type {Record<string, (it: any) => string>} */
const POLICIES = {
  allow: () => 'Requests run side by side',
  queue: (it) => `One request at a time${meet(it)}; others wait, first come, first served${it.maxWaitMs ? `, for ${lasting(it.maxWaitMs)} at the most` : ''}`,
  reject: (it) => `One request at a time${meet(it)}; another is refused and told who is in flight`,
  restart: (it) => `One request at a time${meet(it)}; a new one replaces the one in flight`,
  debounce: (it) => `One run${meet(it)} once it has been quiet for ${lasting(it.periodMs)}${it.maxWaitMs ? `, at the latest ${lasting(it.maxWaitMs)} after the first request` : ''}; it gets the last request`,
};

/** What happens to runs of an older version. @type {Record<string, string>} */
const ON_NEW = {
  supersede: 'the first run of a newer version cancels older ones that have started and takes the rest along',
  drain: 'runs of a newer version wait until the older ones are over',
  coexist: 'each version is counted by itself',
};

/** One sentence a control. @type {Record<string, (it: any) => string>} */
const SENTENCES = {
  concurrency: (it) =>
    it.span === 'run'
      ? `At most ${it.limit} live at once${each(it.key)}, from admission to the end; others wait in order`
      : `At most ${it.limit} at once${each(it.key)}; others wait in order`,
  policy: (it) => (POLICIES[it.key === 'none' ? 'allow' : it.policy] ?? (() => `Policy ${it.policy}`))(it),
  throttle: (it) => `Starts ${rate(it.limit, it.perMs)} at the most${each(it.key)}${together(it, 1)}; others wait for their turn`,
  rateLimit: (it) => `Lets in ${rate(it.limit, it.perMs)}${each(it.key)}${together(it)}; what is over is dropped`,
  debounce: (it) => `One run${each(it.key)} once it has been quiet for ${lasting(it.periodMs)}${it.maxWaitMs ? `, at the latest ${lasting(it.maxWaitMs)} after the first event` : ''}; it gets the last event`,
  batch: (it) => `One run for many events${each(it.key)}: as soon as there are ${it.maxSize}, or ${lasting(it.timeoutMs)} after the first`,
  priority: (it) => `Stands in line as if it had come ${lasting(it.shiftMs)} earlier`,
  singleton: (it) => `One live run${each(it.key)}; ${it.mode === 'skip' ? 'while it lives, others are skipped' : 'a new one replaces it'}`,
  idempotency: (it) => `One run${each(it.key)} in ${lasting(it.periodMs ?? 86_400_000)}; repeats are dropped as deduped`,
  handoff: (it) => `One live run${each(it.keyField)} over all versions; ${ON_NEW[it.onNewVersion] ?? it.onNewVersion}`,
};

/** Which numbers of a control there are, in order; `Ms` is milliseconds. @type {Record<string, string[]>} */
const NUMBERS = {
  concurrency: ['limit'], throttle: ['limit', 'perMs', 'burst'], rateLimit: ['limit', 'perMs', 'burst'],
  debounce: ['periodMs', 'maxWaitMs'], batch: ['maxSize', 'timeoutMs', 'maxBytes'], priority: ['shiftMs'],
  idempotency: ['periodMs'], queue: ['maxWaitMs'],
};

/**
 * @typedef {{ control: string, at: (string | number)[], it: any, numbers: string[], sentence: string }} Control
 *   `control` as the gates name it, `at` where it stands in the definition
 */

/** @param {string} name @param {any} written @param {(string | number)[]} at @returns {Control} */
function one(name, written, at) {
  const it = typeof written === 'string' ? { policy: written } : written;
  const control = name !== 'concurrency' ? name : it.policy ? 'policy' : it.type ? 'handoff' : name;
  const numbers = typeof written === 'string' ? [] : (NUMBERS[control === 'policy' ? it.policy : control] ?? []);
  return { control, at, it, numbers, sentence: (SENTENCES[control] ?? (() => JSON.stringify(it)))(it) };
}

/** The order in which they act. */
const ORDER = ['idempotency', 'rateLimit', 'debounce', 'batch', 'handoff', 'singleton', 'policy', 'priority', 'throttle', 'concurrency'];

/** Every control of a workflow, in the order in which they act. @param {any} flowControl @returns {Control[]} */
export function controlsOf(flowControl) {
  const all = Object.entries(flowControl ?? {}).flatMap(([name, written]) =>
    Array.isArray(written) ? written.map((part, i) => one(name, part, [name, i])) : [one(name, written, [name])]);
  return all.sort((a, b) => ORDER.indexOf(a.control) - ORDER.indexOf(b.control));
}

/** What a gate lets in, in a few words. @param {any} gate */
export function letsIn(gate) {
  if (gate.perMs) return `${rate(gate.limit, gate.perMs)}, ${gate.burst > 1 ? `${gate.burst} together` : 'one at a time'}`;
  if (gate.limit !== undefined) return `${gate.limit} at once`;
  return gate.letsIn ?? '';
}
