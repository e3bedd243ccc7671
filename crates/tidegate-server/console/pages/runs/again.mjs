import { html, useState } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { go, to } from '../../lib/route.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { EditJson, parse } from '../../ui/edit-json.mjs';
import { act } from '../../ui/toast.mjs';
import { Verdict } from '../../ui/verdict.mjs';

/** Says what became of a run that was asked for, and goes there. @param {() => Promise<any>} ask @param {() => void} close */
export async function another(ask, close) {
  const told = await act(ask, (it) => html`<${Verdict} of=${it} />`);
  if (!told) return null;
  if (told.runId) go(to(['runs', told.runId]));
  else close();
  return told;
}

/** A run once more, from its beginning. @param {{ run: any, close: () => void }} props */
export function Replay({ run, close }) {
  // Of a request only what it carries can be another; session, user and metadata stay.
  const before = run.source === 'request' ? run.input?.input : run.input;
  const given = before === undefined ? '' : JSON.stringify(before, null, 2);
  const [text, setText] = useState(given);
  const { value, wrong } = parse(text);
  const same = text === given;
  return html`<${Drawer} title="Replay this run" close=${close}>
    <p class="soft">It becomes a new run of the version that is released now. It passes gates, throttle and handoff like any other; idempotency, rate limit, debounce and batch do not ask again.</p>
    ${run.source === 'request' && html`<p class="soft">Session, user and metadata of the request stay as they are.</p>`}
    ${Array.isArray(before) && html`<p class="soft">Unchanged, a batch is taken again as a whole; another input counts as one event.</p>`}
    <${EditJson} label=${same ? 'Input: the same as before' : 'Input: changed'} text=${text} set=${setText} rows=${14} />
    <p class="actions"><button type="button" class="primary" disabled=${Boolean(wrong)} onClick=${() => another(() => post(path`/runs/${run.id}/replay`, same ? {} : { input: value ?? null }), close)}>Replay</button>
      ${!same && html`<button type="button" class="quiet" onClick=${() => setText(given)}>As it was</button>`}</p>
  </${Drawer}>`;
}

/** A signal into a run's inbox. @param {{ run: any, waits: string, close: () => void, again: () => void }} props `waits`: what it waits for now */
export function Signal({ run, waits, close, again }) {
  const [name, setName] = useState(/waits for a signal `([^`]+)`/.exec(waits)?.[1] ?? '');
  const [text, setText] = useState('');
  const { value, wrong } = parse(text);
  /** @param {Event} event */
  async function send(event) {
    event.preventDefault();
    if (!name.trim() || wrong) return;
    const told = await act(() => post(path`/runs/${run.id}/signals/${name.trim()}`, value), 'The signal is in its inbox.');
    if (told) close();
    again();
  }
  return html`<${Drawer} title="Send a signal" close=${close}>
    <form class="stack" onSubmit=${send}>
      <p class="soft">It is kept until the run asks for a signal of this name.</p>
      <label class="field"><span>Name</span><input required value=${name} onInput=${(/** @type {Event} */ it) => setName(/** @type {HTMLInputElement} */ (it.target).value)} spellcheck=${false} /></label>
      <${EditJson} label="What it carries, as JSON (not needed)" text=${text} set=${setText} />
      <p><button class="primary" disabled=${!name.trim() || Boolean(wrong)}>Send it</button></p>
    </form>
  </${Drawer}>`;
}
