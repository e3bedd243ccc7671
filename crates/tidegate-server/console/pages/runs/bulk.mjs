import { html, useEffect, useRef, useState } from '../../lib/html.mjs';
import { get, path, post } from '../../lib/api.mjs';
import { count, plural } from '../../lib/format.mjs';
import { closes } from '../../lib/keys.mjs';
import { route, setQuery } from '../../lib/route.mjs';
import { confirm } from '../../ui/confirm.mjs';
import { act, say } from '../../ui/toast.mjs';
import { WORDS, cannot, filterOf, inWords, preview } from './bulk-what.mjs';
import { askReason } from './reason.mjs';

/** @typedef {import('./bulk-what.mjs').Action} Action */
const ACTIONS = /** @type {Action[]} */ (['cancel', 'pause', 'resume']);

/** @param {Action} action @param {string} title @param {any} text @returns {Promise<{ reason?: string } | null>} */
async function sure(action, title, text) {
  const { does } = WORDS[action];
  if (action !== 'cancel') return (await confirm({ title, text, yes: does })) ? {} : null;
  const reason = await askReason({ title, text, yes: 'Cancel runs' });
  return reason === null ? null : reason ? { reason } : {};
}

/** Progress of a bulk operation. @param {{ id: string }} props */
function Going({ id }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  useEffect(() => {
    let over = false;
    async function look() {
      try {
        const so = await get(path`/runs/bulk/${id}`);
        if (over) return;
        setTold(so);
        if (!so.finished) setTimeout(look, 700);
      } catch (error) {
        if (!over) setTold({ error });
      }
    }
    look();
    return () => { over = true; };
  }, [id]);
  if (!told) return null;
  const text = told.error ? told.error.message : `Bulk action ${told.finished ? 'finished' : 'in progress'}: ${plural(told.done, 'run')} done${told.refused ? `, ${count(told.refused)} refused` : ''}.`;
  return html`<p class="note" role="status">${text} <button type="button" class="quiet" onClick=${() => setQuery({ bulk: undefined })}>Close</button></p>`;
}

/** @param {{ asked: import('./which.mjs').Which, again: () => void }} props */
function AllThatFit({ asked, again }) {
  const [open, setOpen] = useState(false);
  useEffect(() => (open ? closes(() => setOpen(false)) : undefined), [open]);
  const not = cannot(asked);
  /** @param {Action} action */
  async function all(action) {
    setOpen(false);
    const many = await preview(asked, action).catch((error) => void say(error.message, true));
    if (!many) return;
    if (many.all === 0) return say(`No matching run can be ${WORDS[action].done}.`);
    const filter = filterOf(asked);
    const none = Object.keys(filter).length === 0;
    const also = await sure(action, `${WORDS[action].does} ${many.words}?`, html`<p>${inWords(asked)}. Runs that are queued later are not affected.${action === 'cancel' ? ' This cannot be undone.' : action === 'pause' ? ' Running runs pause after their current step, queued runs once they are admitted.' : ''}</p>`);
    if (!also) return;
    const told = await act(() => post('/runs/bulk', { action, ...(none ? { all: true } : { filter }), ...also }), `${WORDS[action].doing} …`);
    if (told) setQuery({ bulk: told.id });
    again();
  }
  return html`<div class="menu">
    <button type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>Actions on all matching ▾</button>
    ${open && html`<div class="menu-list">${not
      ? html`<p class="soft">${not}</p>`
      : ACTIONS.map((action) => html`<button type="button" class="quiet" onClick=${() => all(action)}>${WORDS[action].does} …</button>`)}</div>`}
  </div>`;
}

/** @param {{ chosen: Set<string>, clear: () => void, again: () => void }} props */
function Chosen({ chosen, clear, again }) {
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const end = useRef(clear);
  end.current = clear;
  useEffect(() => closes(() => end.current()), []);
  /** @param {Action} action */
  async function each(action) {
    const ids = [...chosen];
    const many = plural(ids.length, 'selected run');
    const also = await sure(action, `${WORDS[action].does} ${many}?`, action === 'cancel' ? html`<p>These runs commit no further steps. This cannot be undone.</p>` : html`<p>Runs that have ended are not affected.</p>`);
    if (!also) return;
    let done = 0;
    let refused = '';
    let not = 0;
    for (const [i, id] of ids.entries()) {
      setAt(i);
      try {
        await post(path`/runs/${id}/` + action, action === 'cancel' ? also : undefined);
        done += 1;
      } catch (error) {
        not += 1;
        refused ||= /** @type {Error} */ (error).message;
      }
    }
    setAt(null);
    say(`${plural(done, 'run')} ${WORDS[action].done}${not ? `; ${not} refused: ${refused}` : ''}`, done === 0);
    clear();
    again();
  }
  return html`<div class="chosen-bar" role="region" aria-label="Selected runs">
    <b>${plural(chosen.size, 'run')} selected</b>
    ${at === null
      ? html`${ACTIONS.map((action) => html`<button type="button" onClick=${() => each(action)}>${WORDS[action].does}</button>`)}
        <button type="button" class="quiet" onClick=${clear}>Clear selection</button>`
      : html`<span role="status">${at} of ${chosen.size} …</span>`}
  </div>`;
}

/** Bulk actions: on all matching runs, and on selected runs. @param {{ asked: import('./which.mjs').Which, chosen: Set<string>, clear: () => void, again: () => void }} props */
export function Bulk({ asked, chosen, clear, again }) {
  const id = route.value.query.get('bulk');
  return html`<${AllThatFit} asked=${asked} again=${again} />
    ${id && html`<${Going} key=${id} id=${id} />`}
    ${chosen.size > 0 && html`<${Chosen} chosen=${chosen} clear=${clear} again=${again} />`}`;
}
