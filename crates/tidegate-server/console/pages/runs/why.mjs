import { html } from '../../lib/html.mjs';
import { to } from '../../lib/route.mjs';
import { plural } from '../../lib/format.mjs';
import { EventLink, RunLink } from '../../ui/link.mjs';
import { Sentence } from '../../ui/sentence.mjs';
import { Until } from '../../ui/time.mjs';
import { keyWords } from '../gates/gate.mjs';
import { words } from '../gates/preview.mjs';

/** Number of holders listed. */
const NAMED = 8;

/** @param {{ ids: string[] }} props */
function Holders({ ids }) {
  if (ids.length === 0) return html`<span class="faint">none</span>`;
  return html`${ids.slice(0, NAMED).map((id, i) => html`${i > 0 ? ', ' : ''}<${RunLink} id=${id} />`)}${ids.length > NAMED ? ` and ${ids.length - NAMED} more` : ''}`;
}

/** Row of a gate that the run has still to pass. @param {{ gate: any, first: boolean }} props */
function Gate({ gate, first }) {
  const facts = factsOf(gate);
  return html`<tr class=${`${first ? 'binds' : ''}${facts.length > 0 ? ' has-facts' : ''}`}>
    <td><span class=${`badge ${gate.full ? 'wait' : ''}`}>${gate.control}</span></td>
    <td><a href=${to('gates', { control: gate.control, key: gate.key })}><code>${keyWords(gate)}</code></a></td>
    <td>${gate.limit}${gate.full ? html` <b class="full-word">full</b>` : ''}</td>
    <td class="wraps"><${Holders} ids=${gate.holders} />${gate.draining?.length > 0 && html`<div class="faint">stopping: <${Holders} ids=${gate.draining} /></div>`}</td>
    <td class="num">${gate.place ?? gate.fair?.place ?? html`<span class="faint">–</span>`}</td>
    <td class="wraps">${gate.full ? html`<${Sentence} text=${gate.frees} />` : html`<span class="faint">there is room</span>`}${gate.at && html` (<${Until} at=${gate.at} />)`}</td>
  </tr>
  ${facts.length > 0 && html`<tr class=${first ? 'binds' : ''}><td></td><td class="wraps facts" colspan="5">${facts.map((fact, i) => html`${i > 0 ? ' · ' : ''}${fact}`)}</td></tr>`}`;
}

/** Pool, cost, turn, adaptive value, overrides and closing of a gate, each in words. @param {any} gate @returns {any[]} */
function factsOf({ pool, steps, cost, used, fair, adaptive, fromData, overrides, closed }) {
  return [
    pool && html`pool <a href=${to('gates', { pool })}>${pool}</a>`,
    steps?.length > 0 && `for the step ${steps.join(', ')}`,
    cost !== undefined && `takes ${plural(cost, 'unit')}`,
    used !== undefined && `${plural(used, 'unit')} taken`,
    fair && `${fair.value}: weight ${fair.weight} of ${fair.of}, at most ${plural(fair.ahead, 'entry', 'entries')} before it`,
    adaptive && `adaptive from ${adaptive.min} to ${adaptive.max}, now ${adaptive.limit}`,
    fromData && html`limit set by <${EventLink} id=${fromData.eventId} />`,
    ...(overrides ?? []).map((/** @type {any} */ it) => html`<b>${words(it)}</b>${it.author ? ` by ${it.author}` : ''}${it.closedUntil || it.expiresAt ? html`, ends <${Until} at=${it.closedUntil ?? it.expiresAt} />` : ''}${it.reason ? `: ${it.reason}` : ''}`),
    closed && html`<b>closed</b> by <${RunLink} id=${closed.by} />, opens <${Until} at=${closed.until} />`,
  ].filter(Boolean);
}

/** @param {{ why: any }} props */
function Earliest({ why }) {
  if (!why.earliest || why.stranded || !['queued', 'waiting'].includes(why.state)) return null;
  // These waits may end before `earliest`, which is then their timeout.
  const latest = (why.waits ?? []).some((/** @type {any} */ wait) => ['event', 'signal', 'child'].includes(wait.for));
  return html` <span class=${`badge ${why.state === 'queued' ? 'wait' : 'idle'}`}>${why.state === 'queued' ? 'can start' : latest ? 'times out' : 'continues'} <${Until} at=${why.earliest} /></span>`;
}

/** Explanation of a run's state: one sentence, and the gates in its way. @param {{ why: any }} props */
export function Why({ why }) {
  const gates = /** @type {any[]} */ (why.gates ?? []);
  return html`<section class=${`card why ${why.stranded ? 'stranded' : why.state}`} aria-label="Why">
    ${why.stranded && html`<p class="loud" role="alert">Stranded: this run cannot continue without an action of an operator.</p>`}
    <p class="why-sentence"><${Sentence} text=${why.sentence} />.<${Earliest} why=${why} />${why.expiresAt && html` <span class="badge wait">expires <${Until} at=${why.expiresAt} /></span>`}</p>
    ${gates.length > 0 && html`<div class="why-gates"><table class="table" aria-label="Gates to pass, in order">
      <thead><tr><th scope="col">Gate</th><th scope="col">Key</th><th scope="col">Limit</th><th scope="col">Inside</th><th scope="col" class="num">Queue position</th><th scope="col">Freed by</th></tr></thead>
      <tbody>${gates.map((gate, i) => html`<${Gate} gate=${gate} first=${i === 0} />`)}</tbody></table></div>`}
  </section>`;
}
