// Page "Try it": sends an event, a request or a burst of them, and shows the dry run and the
// results.
import { html, useEffect, useRef, useState } from '../lib/html.mjs';
import { path, post } from '../lib/api.mjs';
import { now } from '../lib/clock.mjs';
import { useFetched } from '../lib/data.mjs';
import { count } from '../lib/format.mjs';
import { to } from '../lib/route.mjs';
import { actionOf, eventNames } from '../lib/workflows.mjs';
import { Tabs } from '../ui/tabs.mjs';
import { AnswerCard } from './try/answer.mjs';
import { BurstForm } from './try/burst.mjs';
import { Data, parse } from './try/data.mjs';
import { beginning, useDraft } from './try/draft.mjs';
import { Dry } from './try/dry.mjs';
import { bodyOf, plan } from './try/plan.mjs';
import { sendAll } from './try/send.mjs';
import { Told } from './try/tally.mjs';
import { Target, takers } from './try/target.mjs';

/** Maximum number of answers kept. */
const KEPT = 8;
let last = 0;

/** @param {any} draft @returns {Promise<import('./try/answer.mjs').Answer>} */
async function sendOne(draft, /** @type {any} */ data) {
  let status = 0;
  const heard = (/** @type {number} */ code) => (status = code);
  const where = draft.kind === 'event' ? '/events' : path`/flows/${draft.flow}/actions/${draft.action}`;
  const what = draft.kind === 'event' ? draft.name : `${draft.flow}/${draft.action}`;
  const told = await post(where, bodyOf(draft, data), draft.wait && draft.kind !== 'event' ? { wait: draft.wait } : {}, heard)
    .catch((error) => error.told ?? { error: error.message });
  return { id: ++last, at: now(), kind: draft.kind, status, told, what };
}

/** Results of a burst and of single requests. @param {{ tally: any, answers: any[], stop: () => void, workflows: string[] }} props */
const Results = ({ tally, answers, stop, workflows }) =>
  html`<section class="card" data-part="answers" aria-label="Answers"><h2>Result</h2>
    ${!tally && answers.length === 0 && html`<p class="faint">Nothing sent yet. Verdicts appear here, with links to the runs.</p>`}
    ${tally && html`<${Told} ...${{ tally, stop, workflows }} />`}
    ${answers.map((it, i) => html`<${AnswerCard} key=${it.id} answer=${it} open=${i === 0} />`)}</section>`;

export default function Try() {
  const told = useFetched('/workflows', {}, { live: false });
  const workflows = /** @type {import('../lib/workflows.mjs').Workflow[]} */ (told.value?.workflows ?? []);
  const { draft, change } = useDraft();
  const [answers, setAnswers] = useState(/** @type {any[]} */ ([]));
  const [tally, setTally] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const [round, setRound] = useState(0);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);

  const who = takers(draft, workflows);
  const schema = who.find((it) => it.schema)?.schema;
  const target = draft.kind === 'event' ? draft.name : `${draft.flow}/${draft.action}`;
  // Defaults: the first event or action that can be sent, and the newest data.
  useEffect(() => {
    if (workflows.length === 0) return;
    const [flow, action] = workflows.map(actionOf).find((it) => it && (!draft.flow || it[0] === draft.flow)) ?? [];
    if (draft.kind === 'event' && !draft.name) change({ name: eventNames(workflows)[0] ?? '' });
    if (draft.kind === 'request' && !draft.action && flow) change({ flow, action });
  }, [workflows.length, draft.kind, draft.flow]);
  const fresh = useRef('');
  const newest = async () => change({ text: JSON.stringify(await beginning(draft, schema), null, 2) });
  useEffect(() => {
    if (!told.value || !target || target === '/' || target.endsWith('/')) return;
    // Data that the user typed is kept until another event or action is chosen.
    if (draft.text && (fresh.current === '' || fresh.current === target)) fresh.current = target;
    else if (fresh.current !== target && (who.length > 0 || !draft.text)) {
      fresh.current = target;
      newest();
    }
  }, [Boolean(told.value), target, who.length]);

  const { data, wrong } = parse(draft.text);
  const ready = Boolean(draft.kind === 'event' ? draft.name : draft.flow && draft.action) && !wrong && Boolean(told.value);

  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    if (!ready || busy) return;
    setBusy(true);
    if (draft.on) {
      stop.current = new AbortController();
      setAnswers([]);
      await sendAll(draft, plan(draft, data, draft), draft.rate, setTally, stop.current.signal);
    } else {
      const answer = await sendOne(draft, data);
      setTally(null);
      setAnswers((before) => [answer, ...before].slice(0, KEPT));
    }
    setBusy(false);
    setRound((before) => before + 1);
  }

  const event = draft.kind === 'event';
  return html`
    <div class="page-head"><h1>Try it</h1><p>Send an event or a request, and see its verdicts.</p>
      <${Tabs} label="Send" tabs=${[
        { text: 'Event', href: to('try'), here: event },
        { text: 'Request', href: to('try', { kind: 'request' }), here: !event },
      ]} /></div>
    <div class="try">
      <form class="card stack" onSubmit=${submit} aria-label="Event or request">
        <${Target} draft=${draft} change=${change} workflows=${workflows} />
        <${Data} text=${draft.text} schema=${schema} label=${event ? 'Data' : 'Input'} change=${(/** @type {string} */ text) => change({ text })} newest=${newest} />
        <${BurstForm} draft=${draft} change=${change} data=${data} takers=${who} />
        <p class="actions"><button class="primary" disabled=${!ready || busy}>${busy ? 'Sending …' : draft.on ? `Send ${count(draft.n)} ${event ? 'events' : 'requests'}` : event ? 'Send event' : 'Send request'}</button></p>
      </form>
      <div class="stack top"><${Dry} draft=${draft} data=${data} ready=${ready} round=${round} /><${Results} tally=${tally} answers=${answers} workflows=${who.map((it) => it.name)} stop=${() => stop.current.abort()} /></div>
    </div>`;
}
