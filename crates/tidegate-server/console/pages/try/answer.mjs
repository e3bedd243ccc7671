// The server's answer to one event or request, and its runs until they end.
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

/** Chunks that a run emits: strings as text, anything else as JSON. @param {{ chunks: any[] }} props */
function Chunks({ chunks }) {
  if (!chunks.every((it) => typeof it === 'string')) return html`<${Json} value=${chunks} label="chunks" />`;
  // Some runs emit single words, which need spaces between them; others emit text that contains its
  // spaces.
  return html`<pre class="spoken" aria-label="emitted text">${chunks.join(chunks.some((it) => /\s/.test(it)) ? '' : ' ')}</pre>`;
}

/** Live state of a run, with the chunks that it emits. @param {{ id: string }} props */
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
    ${seen.end && html`<${Json} value=${seen.end.output ?? seen.end.error ?? seen.end} label="result of the run" />`}</div>`;
}

/** State of a run, refreshed until it has ended. @param {{ id: string }} props */
function Looked({ id }) {
  const [over, setOver] = useState(false);
  const run = useFetched(path`/runs/${id}`, {}, { live: !over });
  const state = run.value?.state;
  useEffect(() => setOver(ENDS.includes(state)), [state]);
  if (!state) return null;
  return html`<p><${RunLink} id=${id} /> <${State} state=${state} /></p>`;
}

/** @param {{ answer: Answer, open: boolean }} props `open`: its runs are followed, as for the newest answer */
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
        ${told.events[0].woke > 0 && html`<p class="soft">Resumed ${told.events[0].woke} waiting ${told.events[0].woke === 1 ? 'run' : 'runs'}.</p>`}
        ${open && runs.map((id) => html`<${Looked} key=${id} id=${id} />`)}`
      : html`<${Json} value=${told} label="the answer" />
        ${open && told?.requestId && !ENDS.includes(told.state) && html`<${Followed} key=${told.requestId} id=${told.requestId} />`}`}
  </div>`;
}
