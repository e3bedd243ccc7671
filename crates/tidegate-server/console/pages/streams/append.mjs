// Form that appends one event to a stream.
import { html, useState } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { parse } from '../../lib/json.mjs';
import { act } from '../../ui/toast.mjs';

/** @param {{ stream: string, version?: number, done: () => void }} props `version`: last version of the stream, -1 before its first event */
export function Append({ stream, version, done }) {
  const [name, setName] = useState('');
  const [data, setData] = useState('{}');
  const [only, setOnly] = useState(false);
  const [wrong, setWrong] = useState('');
  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    let value;
    try {
      value = parse(data || 'null');
    } catch (error) {
      setWrong(`Invalid JSON: ${/** @type {Error} */ (error).message}`);
      return;
    }
    setWrong('');
    const body = { events: [{ name, data: value }], ...(only && version !== undefined ? { expectedVersion: version } : {}) };
    const told = await act(() => post(path`/streams/${stream}/events`, body), (/** @type {any} */ it) => `Appended as version ${it.version}`);
    if (told) done();
  }
  return html`<section><h3>Append an event</h3>
    <form class="stack tight" onSubmit=${submit}>
      <label class="field"><span>Name</span><input required maxlength="256" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} placeholder="paid" spellcheck=${false} /></label>
      <label class="field"><span>Data, as JSON</span><textarea rows="4" value=${data} onInput=${(/** @type {any} */ e) => setData(e.target.value)} spellcheck=${false}></textarea></label>
      ${wrong && html`<p class="problem" role="alert">${wrong}</p>`}
      <label class="check"><input type="checkbox" checked=${only} onChange=${(/** @type {any} */ e) => setOnly(e.target.checked)} />
        ${version === -1 ? 'only if the stream does not exist yet' : `only if the stream is still at version ${version ?? '…'}`}</label>
      <p><button class="primary" disabled=${!name}>Append</button></p>
    </form></section>`;
}
