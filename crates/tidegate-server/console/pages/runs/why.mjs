import { html } from '../../lib/html.mjs';
import { to } from '../../lib/route.mjs';
import { RunLink } from '../../ui/link.mjs';
import { Sentence } from '../../ui/sentence.mjs';
import { Until } from '../../ui/time.mjs';
import { keyWords } from '../gates/gate.mjs';

/** Number of holders listed. */
const NAMED = 8;

/** @param {{ ids: string[] }} props */
function Holders({ ids }) {
  if (ids.length === 0) return html`<span class="faint">none</span>`;
  return html`${ids.slice(0, NAMED).map((id, i) => html`${i > 0 ? ', ' : ''}<${RunLink} id=${id} />`)}${ids.length > NAMED ? ` and ${ids.length - NAMED} more` : ''}`;
}

/** Row of a gate that the run has still to pass. @param {{ gate: any, first: boolean }} props */
function Gate({ gate, first }) {
  return html`<tr class=${first ? 'binds' : ''}>
    <td><span class=${`badge ${gate.full ? 'wait' : ''}`}>${gate.control}</span></td>
    <td><a href=${to('gates', { control: gate.control, key: gate.key })}><code>${keyWords(gate)}</code></a></td>
    <td>${gate.limit}${gate.full ? html` <b class="full-word">full</b>` : ''}</td>
    <td class="wraps"><${Holders} ids=${gate.holders} />${gate.draining?.length > 0 && html`<div class="faint">stopping: <${Holders} ids=${gate.draining} /></div>`}</td>
    <td class="num">${gate.place ?? html`<span class="faint">–</span>`}</td>
    <td class="wraps">${gate.full ? html`<${Sentence} text=${gate.frees} />` : html`<span class="faint">there is room</span>`}${gate.at && html` (<${Until} at=${gate.at} />)`}</td>
  </tr>`;
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
