import { html } from '../../lib/html.mjs';
import { useFetched } from '../../lib/data.mjs';
import { plural } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';
import { EventLink, WorkflowLink } from '../../ui/link.mjs';
import { Time } from '../../ui/time.mjs';

/** Events that a window or a buffer has collected for a run that does not exist yet. @param {{ id: string, fold: { control: string, key: string } | undefined }} props `fold`: of the `why` of the run */
export function ToCome({ id, fold }) {
  const { control, key } = fold ?? {};
  const told = useFetched(control ? '/receipts' : null, { control, key, limit: 100 });
  const mine = /** @type {any[]} */ (told.value?.receipts ?? []).filter((it) => it.runId === id);
  const first = mine[0];
  return html`<section class="card"><h2>Collected events</h2>
    <p class="soft">This run has an id already; it is created when its ${control === 'batch' ? 'buffer is full or due' : 'window closes'}.${
      first ? html` Workflow: <${WorkflowLink} app=${first.app} name=${first.workflow} />.` : ''}${
      control ? html` <a href=${to('gates', { control, key })}>Show the gate</a>` : ''}</p>
    ${mine.length > 0 && html`<table class="table" aria-label="Collected events"><thead><tr><th scope="col">Received</th><th scope="col">Event</th></tr></thead>
      <tbody>${mine.slice(0, 30).map((it) => html`<tr key=${it.eventId}><td><${Time} at=${it.at} /></td><td><${EventLink} id=${it.eventId} /></td></tr>`)}</tbody></table>
      ${mine.length > 30 && html`<p class="faint">and ${plural(mine.length - 30, 'earlier event')}</p>`}`}
  </section>`;
}
