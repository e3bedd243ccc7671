import { html, useState } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { go, to } from '../../lib/route.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { EditJson, parse } from '../../ui/edit-json.mjs';
import { act } from '../../ui/toast.mjs';
import { Verdict } from '../../ui/verdict.mjs';

/** Requests another run, shows the verdict, and opens the run. @param {() => Promise<any>} ask @param {() => void} close */
export async function another(ask, close) {
  const told = await act(ask, (it) => html`<${Verdict} of=${it} />`);
  if (!told) return null;
  if (told.runId) go(to(['runs', told.runId]));
  else close();
  return told;
}

/** Drawer that replays a run from its beginning. @param {{ run: any, close: () => void }} props */
export function Replay({ run, close }) {
  // Of a request, only `input` can be changed; its session, user and metadata are replayed
  // unchanged.
  const before = run.source === 'request' ? run.input?.input : run.input;
  const given = before === undefined ? '' : JSON.stringify(before, null, 2);
  const [text, setText] = useState(given);
  const { value, wrong } = parse(text);
  const same = text === given;
  return html`<${Drawer} title="Replay run" close=${close}>
    <p class="soft">Creates a new run of the current version. It passes concurrency gates, throttle and handoff like any other run; idempotency, rate limit, debounce and batch are not applied again.</p>
    ${run.source === 'request' && html`<p class="soft">Session, user and metadata of the request stay the same.</p>`}
    ${Array.isArray(before) && html`<p class="soft">If you leave the input unchanged, it is replayed as a batch of events. If you change it, it is replayed as one event.</p>`}
    <${EditJson} label=${same ? 'Input (unchanged)' : 'Input (changed)'} text=${text} set=${setText} rows=${14} />
    <p class="actions"><button type="button" class="primary" disabled=${Boolean(wrong)} onClick=${() => another(() => post(path`/runs/${run.id}/replay`, same ? {} : { input: value ?? null }), close)}>Replay</button>
      ${!same && html`<button type="button" class="quiet" onClick=${() => setText(given)}>Reset</button>`}</p>
  </${Drawer}>`;
}

/** Drawer that sends a signal to a run. @param {{ run: any, waits: any[], close: () => void, again: () => void }} props `waits`: of the `why` of the run */
export function Signal({ run, waits, close, again }) {
  const [name, setName] = useState(waits.find((wait) => wait.for === 'signal')?.name ?? '');
  const [text, setText] = useState('');
  const { value, wrong } = parse(text);
  /** @param {Event} event */
  async function send(event) {
    event.preventDefault();
    if (!name.trim() || wrong) return;
    const told = await act(() => post(path`/runs/${run.id}/signals/${name.trim()}`, value), 'Signal sent.');
    if (told) close();
    again();
  }
  return html`<${Drawer} title="Send signal" close=${close}>
    <form class="stack" onSubmit=${send}>
      <p class="soft">The signal is stored until the run waits for a signal of this name.</p>
      <label class="field"><span>Name</span><input required value=${name} onInput=${(/** @type {Event} */ it) => setName(/** @type {HTMLInputElement} */ (it.target).value)} spellcheck=${false} /></label>
      <${EditJson} label="Payload, as JSON (optional)" text=${text} set=${setText} />
      <p><button class="primary" disabled=${!name.trim() || Boolean(wrong)}>Send</button></p>
    </form>
  </${Drawer}>`;
}
