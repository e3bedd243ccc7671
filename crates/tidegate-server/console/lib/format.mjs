// Formatting of numbers, durations and times.

const whole = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const clockTime = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayTime = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' });

/** @param {number} n */
export const count = (n) => (Math.abs(n) < 100_000 ? whole.format(n) : compact.format(n));

/** `1 run`, `3 runs`. @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** Duration: `480 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d`. @param {number} ms */
export function span(ms) {
  if (!Number.isFinite(ms)) return '–';
  const positive = Math.max(0, ms);
  if (positive < 1000) return `${Math.round(positive)} ms`;
  const s = positive / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return two(min, 'min', Math.round(s % 60), 's');
  const hours = Math.floor(min / 60);
  if (hours < 48) return two(hours, 'h', min % 60, 'min');
  return `${Math.round(hours / 24)} d`;
}

/** @param {number} a @param {string} big @param {number} b @param {string} small */
const two = (a, big, b, small) => (b ? `${a} ${big} ${b} ${small}` : `${a} ${big}`);

/** Time in the reader's time zone; with the date unless it is today. @param {string | number} at */
export function moment(at, today = Date.now()) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  const same = date.toDateString() === new Date(today).toDateString();
  return (same ? clockTime : dayTime).format(date);
}

/** Exact time with the time zone. @param {string | number} at */
export function exact(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return `${date.toISOString()} (${date.toLocaleString()} ${zone})`;
}

/** Short form of an id: its sequence number, without the random suffix. @param {string} id */
export function shortId(id) {
  const [kind, rest] = id.split('_');
  return rest && rest.length === 26 ? `${kind}_${rest.slice(0, 14).replace(/^0+/, '')}` : id;
}

/** ` (key acme)` behind the name of a control; empty for a gate without a key. @param {string | undefined} key */
export const keyNote = (key) => (!key || key === '(whole)' ? '' : key === '(missing)' ? ' (key missing)' : ` (key ${key})`);

/** Bytes. @param {number} n */
export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} kB`;
  return `${(n / 1024 / 1024).toFixed(1)} MB`;
}
