import { html, useRef } from '../../lib/html.mjs';
import { now } from '../../lib/clock.mjs';
import { count } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';
import { Fold } from '../../ui/fold.mjs';
import { Grants } from '../../ui/grants.mjs';
import { Until } from '../../ui/time.mjs';
import { follow } from './follow.mjs';
import { isFull, kindOf, shutOf, tag } from './gate.mjs';
import { enter, leave } from './hover.mjs';
import { Label, said } from './label.mjs';
import { useSeen } from './seen.mjs';

/** Width of a token with its gap, and height of a row of tokens. */
const TOKEN = 56;
const ROW = 28;
const TOP = 9;
const MORE = 54;
const EXIT = 122;

/** @typedef {import('./gate.mjs').Gate} Gate @typedef {import('./follow.mjs').Token} Token */

/** Layout of a lane of this width. @param {number} width */
export function places(width) {
  const columns = width < 640 ? 4 : 5;
  const gate = columns * TOKEN + 10;
  const line = Math.max(TOKEN + MORE, width - gate - EXIT);
  return { columns, slots: columns * 2, line, gate, exit: line + gate, fits: Math.max(1, Math.min(10, Math.floor((line - MORE - 8) / TOKEN))) };
}

/**
 * Lane of a gate: the queue at the left, its head next to the gate; the holders inside; at the right
 * the runs that have just left.
 *
 * @param {{ gate: Gate, width: number, chosen: boolean, open: (gate: Gate) => void, wholeMs?: number, maxSize?: number, style: 'wide' | 'narrow' | 'brief' }} props
 */
export function Lane({ gate, width, chosen, open, wholeMs, maxSize, style }) {
  const { ref, seen } = useSeen();
  const before = useRef(/** @type {Token[]} */ ([]));
  const from = useRef(/** @type {Gate | null} */ (null));
  if (from.current !== gate) {
    before.current = follow(before.current, gate, now());
    from.current = gate;
  }
  const kind = kindOf(gate);
  const full = kind === 'slots' && isFull(gate);
  /** @param {KeyboardEvent} event */
  const press = (event) => event.key === 'Enter' && event.target === event.currentTarget && open(gate);
  /** @param {MouseEvent} event */
  const click = (event) => !(/** @type {HTMLElement} */ (event.target).closest('a')) && open(gate);
  const at = places(width);
  const rows = kind === 'slots' ? Math.max(1, Math.ceil(Math.min(at.slots, gate.limit ?? gate.inside ?? 0) / at.columns)) : 1;
  const named = (gate.inside ?? 0) > at.slots ? at.slots - 1 : at.slots;
  return html`<div class=${`lane ${kind}${full ? ' full' : ''}${chosen ? ' chosen' : ''}`} ref=${ref} data-row tabindex="0"
      role="group" aria-label=${said(gate)} onKeyDown=${press} onClick=${click}>
    <${Label} gate=${gate} style=${style} />
    <div class="track" style=${{ height: `${rows * ROW + 12}px` }}>
      ${seen && width > 0 && html`
        <${Inside} gate=${gate} kind=${kind} at=${at} wholeMs=${wholeMs} maxSize=${maxSize} />
        <${Waiting} gate=${gate} kind=${kind} at=${at} rows=${rows} />
        ${before.current.filter((it) => (it.where === 'line' ? it.place < fitting(gate, at) : it.where !== 'in' || it.place < named)).map((token) => html`<${Run} key=${token.id} token=${token} at=${at} rows=${rows} />`)}`}
    </div>
  </div>`;
}

/** Number of queued runs with a token: one more if that shows the whole queue. @param {Gate} gate @param {ReturnType<typeof places>} at */
const fitting = (gate, at) => ((gate.line?.count ?? 0) <= at.fits + 1 ? at.fits + 1 : at.fits);

/** Middle part of a lane: the gate itself. @param {{ gate: Gate, kind: string, at: ReturnType<typeof places>, wholeMs?: number, maxSize?: number }} props */
function Inside({ gate, kind, at, wholeMs, maxSize }) {
  const style = { left: `${at.line}px`, width: `${at.gate}px` };
  if (kind === 'meter') return html`<div class="sluice" style=${style}><${Grants} gate=${gate} /></div>`;
  if (kind === 'fold') {
    return html`<div class="sluice fold" style=${style}>${(gate.pending ?? 0) === 0 ? html`<span class="faint">empty</span>` : html`
      <${Fold} batch=${gate.control === 'batch'} pending=${gate.pending ?? 0} until=${gate.until} ...${{ maxSize, wholeMs }} />`}</div>`;
  }
  if (kind === 'claim') return html`<div class="sluice" style=${style}><span>expires <${Until} at=${gate.until} /></span></div>`;
  const slots = Math.min(at.slots, gate.limit ?? 0);
  const hidden = (gate.inside ?? 0) > at.slots ? (gate.inside ?? 0) - at.slots + 1 : 0;
  const last = { translate: `${3 + (at.columns - 1) * TOKEN}px ${TOP - 4 + ROW}px` };
  return html`<div class="sluice slots" style=${style}>
    ${Array.from({ length: slots }, (_, i) => html`<i class="slot" style=${{ translate: `${3 + (i % at.columns) * TOKEN}px ${TOP - 4 + Math.floor(i / at.columns) * ROW}px` }}></i>`)}
    ${gate.limit === undefined && html`<span class="faint sluice-note">${shutOf(gate) ?? 'open: not in the current release'}</span>`}
    ${hidden > 0 && html`<span class="more-inside" style=${last} title=${`${count(gate.inside ?? 0)} inside`}>+${count(hidden)}</span>`}
  </div>`;
}

/** Queued runs without a token, and the events of folds. @param {{ gate: Gate, kind: string, at: ReturnType<typeof places>, rows: number }} props */
function Waiting({ gate, kind, at, rows }) {
  if (kind === 'fold') {
    const most = Math.min(gate.pending ?? 0, Math.floor((at.line - MORE - 20) / 13), 24);
    const hidden = (gate.pending ?? 0) - most;
    return html`<span class="drops" style=${{ width: `${at.line - 12}px` }}>
      ${hidden > 0 && html`<span class="beyond">+${count(hidden)}</span>`}
      ${Array.from({ length: most }, (_, i) => html`<i key=${`${gate.runId}${most - i}`}></i>`)}</span>`;
  }
  if (gate.control === 'rateLimit') return html`<span class="line-note faint" style=${{ width: `${at.line - 16}px` }}>${at.line < 240 ? 'no queue' : 'no queue: events over the limit are dropped'}</span>`;
  const all = gate.line?.count ?? 0;
  const shown = Math.min(gate.line?.first.length ?? 0, fitting(gate, at));
  if (all <= shown) return null;
  return html`<span class="beyond" style=${{ translate: `${at.line - 8 - shown * TOKEN - MORE}px ${TOP + ((rows - 1) * ROW) / 2}px` }} title=${`${count(all)} queued`}>+${count(all - shown)}${gate.line?.atLeast ? '…' : ''}</span>`;
}

/** @param {{ token: Token, at: ReturnType<typeof places>, rows: number }} props */
function Run({ token, at, rows }) {
  const { id, where, place, draining } = token;
  const middle = ((rows - 1) * ROW) / 2;
  const [x, y] =
    where === 'in' ? [at.line + 8 + (place % at.columns) * TOKEN, TOP + Math.floor(place / at.columns) * ROW]
    : where === 'coming' || where === 'took' ? [at.line + at.gate - TOKEN - 2, TOP]
    : where === 'left' ? [at.exit + 10 + Math.min(place, 1) * TOKEN, TOP + middle]
    : [at.line - 8 - (place + 1) * TOKEN, TOP + middle];
  return html`<a class=${`token ${where}${draining ? ' draining' : ''}`} href=${to(['runs', id])} tabindex="-1"
    aria-label=${`${tag(id)}, ${draining ? 'stopping' : where === 'line' ? `position ${place + 1} in the queue` : where === 'in' ? 'inside' : where === 'left' ? 'has left' : where === 'took' ? 'has the claim' : 'collecting'}`}
    style=${{ translate: `${x}px ${y}px` }} onMouseEnter=${(/** @type {MouseEvent} */ event) => enter(event, token)} onMouseLeave=${leave}>${tag(id)}</a>`;
}
