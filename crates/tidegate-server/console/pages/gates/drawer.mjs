import { html, useRef, useState } from '../../lib/html.mjs';
import { count, plural } from '../../lib/format.mjs';
import { setQuery, to } from '../../lib/route.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { Empty, Failed, Stale } from '../../ui/empty.mjs';
import { Fold } from '../../ui/fold.mjs';
import { Grants } from '../../ui/grants.mjs';
import { EventLink, RunLink } from '../../ui/link.mjs';
import { Pool } from '../../ui/pool.mjs';
import { Badge } from '../../ui/state.mjs';
import { Time, Took, Until } from '../../ui/time.mjs';
import { useFound } from './find.mjs';
import { closingOf, fromId, idOf, isFull, kindOf, shutOf } from './gate.mjs';
import { Key, Of } from './label.mjs';
import { definitionOf, sentencesOf } from './lanes.mjs';
import { Overrides } from './override.mjs';
import { useRuns } from './runs.mjs';
import { Why } from './why.mjs';

/** @typedef {import('./gate.mjs').Gate} Gate */

/** Details of a gate: runs inside, the head of its queue, and what frees it. @param {{ id: string, known?: Gate, workflows: any[] }} props */
export function GateDrawer({ id, known, workflows }) {
  const close = () => setQuery({ open: undefined, why: undefined });
  const of = fromId(id);
  // A gate that the list on the page already has is not fetched again.
  const asked = useFound(known || !of ? null : { control: of.control, app: of.app || undefined, workflow: of.workflow || undefined, pool: of.pool, key: of.key }, (it) => idOf(it) === id);
  const gate = known ?? asked.gate;
  if (!of) return html`<${Drawer} title="Gate" close=${close}><${Empty} title="Invalid gate address" /></${Drawer}>`;
  const title = html`<${Badge} tone="accent">${of.control}</${Badge}> <${Of} gate=${of} /> <${Key} gate=${of} />`;
  return html`<${Drawer} title=${title} close=${close}>
    <${Stale} error=${gate ? asked.error : null} />
    ${gate ? html`<${Body} gate=${gate} workflows=${workflows} />` : (asked.error ? html`<${Failed} error=${asked.error} />` : asked.looking ? html`<div class="empty" aria-busy="true">Loading …</div>` : html`<${Empty} title="This gate is idle">Nothing is inside or queued, so the gate's row was deleted. It is created again with the next run of its key.</${Empty}>`)}
  </${Drawer}>`;
}

/** @param {{ gate: Gate, workflows: any[] }} props */
function Body({ gate, workflows }) {
  const kind = kindOf(gate);
  const defined = definitionOf(gate, workflows);
  const bound = gate.pool ? undefined : defined?.it.queue;
  const first = gate.line?.first ?? [];
  const holders = gate.holders ?? [];
  const runs = useRuns(holders, first);
  const [chosen, setChosen] = useState('');
  // The drawer explains the first queued run until that run leaves the queue. Not at a meter: there
  // a run leaves too soon to be read.
  const auto = useRef('');
  const there = (/** @type {string} */ it) => first.includes(it) || holders.includes(it);
  if (!there(auto.current)) auto.current = kind === 'slots' ? (first[0] ?? '') : '';
  const asked = chosen === 'none' ? '' : there(chosen) ? chosen : auto.current;
  return html`
    <section>
      ${gate.pool ? html`<${Pool} name=${gate.pool} control=${gate.control} />` : sentencesOf(gate, workflows).map((it) => html`<p class="lead">${it}.</p>`)}
      ${gate.fromData && html`<p>Limit <b>${gate.fromData.limits.join(', ')}</b> set by the data of event <${EventLink} id=${gate.fromData.eventId} />.</p>`}
      <p class="frees"><b>Freed by:</b> ${frees(gate, kind)}</p>
      <p class="faint"><a href=${to('runs', { workflow: gate.control === 'policy' || gate.pool ? undefined : gate.workflow, key: gate.key.startsWith('(') ? undefined : gate.key })}>Runs</a> · ${' '}
        <a href=${to('events', { tab: 'receipts', control: gate.control, workflow: gate.control === 'policy' || gate.pool ? undefined : gate.workflow, key: gate.key.startsWith('(') ? undefined : gate.key })}>Receipts</a></p>
    </section>
    <${Overrides} gate=${gate} />
    ${kind === 'meter' && html`<section class="card"><${Grants} gate=${gate} /></section>`}
    ${kind === 'fold' && html`<section class="card"><p>${plural(gate.pending ?? 0, 'event')} collected for <${RunLink} id=${gate.runId ?? ''} /></p>
      <${Fold} batch=${gate.control === 'batch'} pending=${gate.pending ?? 0} until=${gate.until} wholeMs=${defined?.it.periodMs ?? defined?.it.timeoutMs} maxSize=${defined?.it.maxSize} /></section>`}
    ${kind === 'claim' && html`<dl class="pairs"><dt>Claimed by</dt><dd>${gate.eventId && html`<${EventLink} id=${gate.eventId} />`} ${gate.runId && html`<${RunLink} id=${gate.runId} />`}</dd>
      <dt>Expires</dt><dd><${Until} at=${gate.until} /></dd></dl>`}
    ${kind === 'slots' && gate.control !== 'pause' && html`<section><h3>Inside · ${gate.units === undefined ? '' : `${plural(gate.inside ?? 0, 'run')}, `}${count(gate.units ?? gate.inside ?? 0)}${gate.limit === undefined ? '' : ` of ${count(gate.limit)}`}${gate.units === undefined ? '' : ' units'}</h3>
      ${gate.adaptive && html`<${Adaptive} it=${gate.adaptive} />`}
      ${holders.length === 0 ? html`<p class="faint">${shutOf(gate) ? 'None.' : 'None: the next run enters at once.'}</p>`
        : html`<ol class="who">${holders.map((id) => html`<${Who} key=${id} id=${id} run=${runs[id]} inside draining=${gate.draining?.includes(id)} chosen=${asked === id} choose=${setChosen} />`)}</ol>`}
      ${(gate.inside ?? 0) > holders.length && html`<p class="faint">and ${count((gate.inside ?? 0) - holders.length)} more</p>`}</section>`}
    ${gate.line && html`<section><h3>Queued · ${count(gate.line.count)}${gate.line.atLeast ? '+' : ''}${bound ? ` of at most ${count(bound.maxWaiting)}` : ''}</h3>
      ${bound && html`<p class="faint">When the queue is full, ${OVERFLOWS[bound.onOverflow] ?? OVERFLOWS.reject}.</p>`}
      ${first.length === 0 ? html`<p class="faint">None.</p>`
        : html`<ol class="who">${first.map((id, i) => html`<${Who} key=${id} id=${id} run=${runs[id]} place=${i + 1} chosen=${asked === id} choose=${setChosen} />`)}</ol>`}
      ${gate.line.count > first.length && html`<p class="faint">and ${count(gate.line.count - first.length)} more</p>`}</section>`}
    `;
}

/** Value of an adaptive limit. @param {{ it: NonNullable<Gate['adaptive']> }} props */
const Adaptive = ({ it }) => html`<p>Adaptive from ${count(it.min)} to ${count(it.max)}, now <b>${count(it.limit)}</b>${it.limit < it.max && `, after ${count(it.successes)} of ${plural(it.limit, 'success', 'successes')}`}${it.loweredAt && html`; lowered <${Time} at=${it.loweredAt} />`}</p>`;

/** @param {{ id: string, run: any, place?: number, inside?: boolean, draining?: boolean, chosen: boolean, choose: (id: string) => void }} props */
const Who = ({ id, run, place, inside, draining, chosen, choose }) => html`<li class=${chosen ? 'chosen' : ''}>
  <span class="place num">${place ?? ''}</span>
  <${RunLink} id=${id} /> <span class="faint">${run ? `${run.workflow} v${run.version}` : ''}</span>
  ${draining && html`<${Badge} tone="bad" title="cancelled; its worker has not confirmed the stop">stopping</${Badge}>`}
  <span class="faint took">${run && (inside && run.startedAt ? html`running for <${Took} from=${run.startedAt} />` : html`queued <${Took} from=${run.queuedAt} /> ago`)}</span>
  <button type="button" class="quiet" aria-expanded=${chosen} onClick=${() => choose(chosen ? 'none' : id)}>Why?</button>
  ${chosen && html`<${Why} id=${id} />`}</li>`;

/** Effect of a new run on a full queue. @type {Record<string, string>} */
const OVERFLOWS = { reject: 'new runs are rejected', dropOldest: 'the first queued run is displaced', dropNewest: 'the last queued run is displaced' };

/** @param {Gate} gate @param {string} kind */
function frees(gate, kind) {
  const holders = gate.holders ?? [];
  const shut = shutOf(gate);
  const end = closingOf(gate)?.closedUntil ?? closingOf(gate)?.expiresAt;
  if (shut && closingOf(gate)) return html`the end of the ${shut === 'paused' ? 'pause' : 'closing'}${end && html`, <${Until} at=${end} />`}`;
  if (gate.closed) return html`its opening, <${Until} at=${gate.closed.until} />: <${RunLink} id=${gate.closed.by} /> has closed it, because its call was refused`;
  if (kind === 'fold') return gate.control === 'batch' ? 'a flush, when the buffer is full or its timeout expires' : 'the end of the window, after its period without events';
  if (kind === 'claim') return 'expiry of the claim';
  if (kind === 'meter') return 'time: every refilled token lets one more run in';
  if (gate.draining?.length) return html`the worker of <${RunLink} id=${gate.draining[0]} /> confirming its stop, or the expiry of its lease`;
  if (!isFull(gate)) return 'not needed: there is room';
  return holders.length === 1 ? html`the end of <${RunLink} id=${holders[0]} />` : `the end of one of its ${count(gate.inside ?? 0)} holders`;
}
