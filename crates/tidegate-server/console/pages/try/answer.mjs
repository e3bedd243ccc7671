// One answer, and the run behind it to its end.
import { html, useEffect, useState } from '../../lib/html.mjs';
import { path } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { follow } from '../../lib/sse.mjs';
import { Json } from '../../ui/json.mjs';
import { EventLink, RunLink } from '../../ui/link.mjs';
import { Badge, State } from '../../ui/state.mjs';
import { Time } from '../../ui/time.mjs';
import { VerdictLine, verdictsOf } from './verdict.mjs';

/** @typedef {{ id: number, at: number, kind: string, status: number, told: any, what: string }} Answer */

const ENDS = ['completed', 'failed', 'cancelled'];

/** What a run emits: words as the text they make, anything else as it is. @param {{ chunks: any[] }} props */
function Chunks({ chunks }) {
  if (!chunks.every((it) => typeof it === 'string')) return html`<${Json} value=${chunks} label="chunks" />`;
  // Some emit words, others pieces of text with their spaces.
  return html`<pre class="spoken" aria-label="what it says">${chunks.join(chunks.some((it) => /\s/.test(it)) ? '' : ' ')}</pre>`;
}

/** A run as it goes, with what it emits. @param {{ id: string }} props */
function Followed({ id }) {
  const [seen, setSeen] = useState({ state: '', chunks: /** @type {any[]} */ ([]), end: /** @type {any} */ (null) });
  useEffect(() => follow(path`/runs/${id}/stream`, {
    on(event, data) {
      setSeen((before) => ({
        state: event === 'state' || event === 'end' ? (data?.state ?? before.state) : before.state,
        chunks: event === 'chunk' ? [...before.chunks.slice(-199), data] : before.chunks,
        end: event === 'end' || event === 'replaced' ? data : before.end,
      }));
    },
    until: (event) => event === 'end' || event === 'replaced',
  }), [id]);
  return html`<div class="stack tight"><p><${RunLink} id=${id} /> ${seen.state && html`<${State} state=${seen.state} />`}</p>
    ${seen.chunks.length > 0 && html`<${Chunks} chunks=${seen.chunks} />`}
    ${seen.end && html`<${Json} value=${seen.end.output ?? seen.end.error ?? seen.end} label="how it ended" />`}</div>`;
}

/** A run's state, looked at until it has ended. @param {{ id: string }} props */
function Looked({ id }) {
  const [over, setOver] = useState(false);
  const run = useFetched(path`/runs/${id}`, {}, { live: !over });
  const state = run.value?.state;
  useEffect(() => setOver(ENDS.includes(state)), [state]);
  if (!state) return null;
  return html`<p><${RunLink} id=${id} /> <${State} state=${state} /></p>`;
}

/** @param {{ answer: Answer, open: boolean }} props `open`: the newest one is followed */
export function AnswerCard({ answer, open }) {
  const { told, status, kind } = answer;
  const good = status >= 200 && status < 300;
  /** @type {import('./verdict.mjs').Verdict[]} */
  const verdicts = kind === 'event' && good ? told.events.flatMap(verdictsOf) : [];
  const runs = verdicts.filter((it) => ['started', 'queued', 'replaced'].includes(it.outcome)).map((it) => it.runId).filter((it) => it !== undefined).slice(0, 4);
  return html`<div class="answer"><p class="line-head"><span><${Badge} tone=${good ? 'good' : 'bad'}>${status || 'no answer'}</${Badge}> <b>${answer.what}</b>
      ${kind === 'event' && good && html` as <${EventLink} id=${told.events[0].id} />`}</span><span class="faint"><${Time} at=${answer.at} /></span></p>
    ${kind === 'event' && good
      ? html`<ul class="told-list">${verdicts.map((it) => html`<${VerdictLine} key=${it.workflow} it=${it} />`)}</ul>
        ${told.events[0].woke > 0 && html`<p class="soft">It woke ${told.events[0].woke} waiting.</p>`}
        ${open && runs.map((id) => html`<${Looked} key=${id} id=${id} />`)}`
      : html`<${Json} value=${told} label="the answer" />
        ${open && told?.requestId && !ENDS.includes(told.state) && html`<${Followed} key=${told.requestId} id=${told.requestId} />`}`}
  </div>`;
}
