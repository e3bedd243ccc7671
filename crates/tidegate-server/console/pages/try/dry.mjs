// Dry run of the draft, repeated with every change.
import { html, useEffect, useState } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { second } from '../../lib/clock.mjs';
import { plural } from '../../lib/format.mjs';
import { bodyOf, plan } from './plan.mjs';
import { begun, countAll } from './send.mjs';
import { Shares } from './tally.mjs';
import { VerdictLine, verdictsOf } from './verdict.mjs';

/** Refresh interval of the dry run of one event, in s. A burst is not refreshed: it costs the server more. */
const AGAIN = 3;

/** @param {any} draft @param {any} data @returns {Promise<any>} */
async function rehearse(draft, data) {
  if (draft.kind === 'event' && draft.on) {
    const items = plan(draft, data, draft);
    const tally = begun(items.length);
    countAll(tally, items, await post('/events', items.map((it) => it.body), { dryRun: true }));
    return { tally };
  }
  if (draft.kind === 'event') return { verdicts: verdictsOf((await post('/events', bodyOf(draft, data), { dryRun: true })).events[0]) };
  const [{ body }] = draft.on ? plan(draft, data, { ...draft, n: 1 }) : [{ body: bodyOf(draft, data) }];
  return { verdicts: [await post(path`/flows/${draft.flow}/actions/${draft.action}`, body, { dryRun: true })], first: draft.on };
}

/** @param {{ draft: any, data: any, ready: boolean, round: number }} props `round`: counter of sent drafts */
export function Dry({ draft, data, ready, round }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const asked = JSON.stringify([ready, draft, data]);
  const beat = draft.on ? 0 : Math.floor(second.value / 1000 / AGAIN);
  useEffect(() => {
    if (!ready) {
      setTold(null);
      return;
    }
    let over = false;
    const timer = setTimeout(async () => {
      const seen = await rehearse(draft, data).catch((error) => ({ error }));
      if (!over) setTold(seen);
    }, draft.on ? 500 : 250);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [asked, beat, round]);
  return html`<section class="card" data-part="dry"><h2>Dry run</h2>
    ${!ready || !told
      ? html`<p class="faint">Shows the verdict of each workflow without sending anything.</p>`
      : told.error ? html`<p class="problem">${told.error.message}</p>`
      : told.tally ? html`<div class="stack"><p class="soft">Verdicts if all ${plural(told.tally.total, 'event')} were sent at once now:</p><${Shares} tally=${told.tally} most=${5} /></div>`
      : html`${told.first && html`<p class="soft">Verdict if the first request of the burst were sent now:</p>`}<ul class="told-list">${told.verdicts.map((/** @type {any} */ it) => html`<${VerdictLine} key=${it.workflow} it=${it} dry />`)}</ul>`}
  </section>`;
}
