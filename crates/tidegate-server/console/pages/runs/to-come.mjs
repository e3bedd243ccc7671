import { html } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';
import { plural } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';
import { EventLink, WorkflowLink } from '../../ui/link.mjs';
import { Time } from '../../ui/time.mjs';

/** What a window or a buffer has gathered for a run that does not exist yet. @param {{ id: string, sentence: string }} props */
export function ToCome({ id, sentence }) {
  const [, control, key] = /^(\w+) of (.+) holds \d+ event/.exec(sentence) ?? [];
  const told = useFetched(control ? '/receipts' : null, { control, key, limit: 100 });
  const mine = /** @type {any[]} */ (told.value?.receipts ?? []).filter((it) => it.runId === id);
  const first = mine[0];
  return html`<section class="card"><h2>What it will carry</h2>
    <p class="soft">The id of this run is fixed already; the run itself begins when its ${control === 'batch' ? 'buffer is full or due' : 'window closes'}.${
      first ? html` It is one of <${WorkflowLink} app=${first.app} name=${first.workflow} />.` : ''}${
      control ? html` <a href=${to('gates', { control, key })}>Watch the gate</a>` : ''}</p>
    ${mine.length > 0 && html`<table class="table" aria-label="Events gathered so far"><thead><tr><th scope="col">Came</th><th scope="col">Event</th></tr></thead>
      <tbody>${mine.slice(0, 30).map((it) => html`<tr key=${it.eventId}><td><${Time} at=${it.at} /></td><td><${EventLink} id=${it.eventId} /></td></tr>`)}</tbody></table>
      ${mine.length > 30 && html`<p class="faint">and ${plural(mine.length - 30, 'earlier event')}</p>`}`}
  </section>`;
}
