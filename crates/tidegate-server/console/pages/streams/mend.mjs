// Dialog that unblocks or resets streams: selection, preview and result.
import { html, useEffect, useState } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { plural } from '../../lib/format.mjs';
import { route } from '../../lib/route.mjs';
import { useFetched } from '../../lib/data.mjs';
import { confirm } from '../../ui/confirm.mjs';
import { Drawer } from '../../ui/drawer.mjs';
import { Failed } from '../../ui/empty.mjs';
import { say } from '../../ui/toast.mjs';
import { picked } from './places.mjs';

/** Maximum number of names listed. */
const SHOWN = 200;
const ABOUT = {
  unblock: ['Unblock streams', 'The reaction continues after the last handled event: the failed event is retried, with its failure count reset to 0.'],
  reset: ['Reset streams', 'The reaction starts again from the first event of these streams. Its external side effects are repeated.'],
};

/** @typedef {{ reaction: string, body: Record<string, unknown> }} Order body of one request */

/** Selected positions, as one request for each reaction. @returns {Order[]} */
function fromPicked() {
  /** @type {Map<string, string[]>} */
  const by = new Map();
  for (const { reaction, stream } of picked.value.values()) by.set(reaction, [...(by.get(reaction) ?? []), stream]);
  return [...by].map(([reaction, streams]) => ({ reaction, body: { streams } }));
}

/** @param {string} remedy @param {Order[]} orders @param {boolean} dryRun */
async function send(remedy, orders, dryRun) {
  /** @type {{ reaction: string, stream: string }[]} */
  const all = [];
  for (const { reaction, body } of orders) {
    const told = await post(path`/reactions/${reaction}/` + remedy, body, dryRun ? { dryRun } : {});
    all.push(...told.streams.map((/** @type {string} */ stream) => ({ reaction, stream })));
  }
  return all;
}

/** @param {{ touched: { reaction: string, stream: string }[] }} props */
const Names = ({ touched }) =>
  html`<ul class="names" tabindex="0" aria-label="Streams">${touched.slice(0, SHOWN).map((it) => html`<li><code>${it.stream}</code> <span class="faint">${it.reaction}</span></li>`)}
    ${touched.length > SHOWN && html`<li class="faint">and ${plural(touched.length - SHOWN, 'more')}</li>`}</ul>`;

/** @param {{ remedy: 'unblock' | 'reset', close: () => void }} props */
export function Mend({ remedy, close }) {
  const of = route.value.query.get('of');
  const byTick = !of && picked.value.size > 0;
  const known = useFetched(byTick ? null : '/reactions', { limit: 1 }, { live: false });
  const names = /** @type {string[]} */ ((known.value?.reactions ?? []).map((/** @type {any} */ it) => it.name));
  const [chosen, setChosen] = useState(of ?? '');
  const reaction = chosen || names[0] || '';
  const [which, setWhich] = useState(remedy === 'unblock' ? 'blocked' : 'pattern');
  const [pattern, setPattern] = useState(route.value.query.get('stream') ?? '');
  const [preview, setPreview] = useState(/** @type {{ touched?: { reaction: string, stream: string }[], error?: Error } | null} */ (null));
  const [done, setDone] = useState(/** @type {{ reaction: string, stream: string }[] | null} */ (null));
  const [busy, setBusy] = useState(false);

  /** @type {Order[]} */
  const orders = byTick ? fromPicked()
    : !reaction || (which === 'pattern' && !pattern) ? []
    : [{ reaction, body: which === 'pattern' ? { stream: pattern } : which === 'blocked' ? { blocked: true } : { all: true } }];
  const asked = JSON.stringify(orders);
  useEffect(() => {
    let over = false;
    setPreview(null);
    if (orders.length === 0 || done) return;
    const timer = setTimeout(async () => {
      const seen = await send(remedy, orders, true).then((touched) => ({ touched }), (error) => ({ error }));
      if (!over) setPreview(seen);
    }, 200);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [asked, remedy, done]);

  const [title, about] = ABOUT[remedy];
  const n = preview?.touched?.length ?? 0;
  async function go() {
    const yes = await confirm({ title: `${remedy === 'reset' ? 'Reset' : 'Unblock'} ${plural(n, 'stream')}?`, text: about, yes: remedy === 'reset' ? 'Reset' : 'Unblock', bad: remedy === 'reset' });
    if (!yes) return;
    setBusy(true);
    try {
      const touched = await send(remedy, orders, false);
      setDone(touched);
      if (byTick) picked.value = new Map();
      say(remedy === 'reset' ? `${plural(touched.length, 'stream')} reset` : `${plural(touched.length, 'stream')} unblocked`);
    } catch (error) {
      say(/** @type {Error} */ (error).message, true);
    }
    setBusy(false);
  }
  if (done) {
    return html`<${Drawer} title=${title} close=${close}>
      <p><b>${plural(done.length, 'stream')}</b> ${remedy === 'reset' ? 'reset to the first event.' : 'unblocked.'}</p>
      <${Names} touched=${done} /><p><button type="button" class="primary" onClick=${close}>Done</button></p></${Drawer}>`;
  }
  return html`<${Drawer} title=${title} close=${close}>
    <p class="soft">${about}</p>
    ${!byTick && html`<div class="filters tight">
      <label class="field"><span>Reaction</span><select value=${reaction} onChange=${(/** @type {any} */ e) => setChosen(e.target.value)}>
        ${names.map((it) => html`<option value=${it} selected=${it === reaction}>${it}</option>`)}</select></label>
      <label class="field"><span>Streams</span><select value=${which} onChange=${(/** @type {any} */ e) => setWhich(e.target.value)}>
        <option value="blocked">all blocked</option><option value="pattern">name contains …</option><option value="all">all</option></select></label>
      ${which === 'pattern' && html`<label class="field"><span>Text; ^ and $ anchor it</span>
        <input type="search" value=${pattern} placeholder="^order/" spellcheck=${false} onInput=${(/** @type {any} */ e) => setPattern(e.target.value)} /></label>`}
    </div>`}
    ${preview?.error && html`<${Failed} error=${preview.error} />`}
    ${orders.length > 0 && !preview && html`<p class="faint" aria-busy="true">Loading preview …</p>`}
    ${preview?.touched && (n === 0
      ? html`<p>${remedy === 'unblock' ? 'No matching stream is blocked.' : 'No matching streams.'}</p>`
      : html`<h3>${plural(n, 'stream')} affected</h3><${Names} touched=${preview.touched} />
        <p><button type="button" class=${remedy === 'reset' ? 'danger' : 'primary'} disabled=${busy} onClick=${go}>${remedy === 'reset' ? 'Reset' : 'Unblock'} ${plural(n, 'stream')} …</button></p>`)}
  </${Drawer}>`;
}
