// Schedules: next and last occurrences, pause and resume.
import { html } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { useList } from '../../lib/data.mjs';
import { count, exact } from '../../lib/format.mjs';
import { Empty, Stale, notYet } from '../../ui/empty.mjs';
import { RunLink, WorkflowLink } from '../../ui/link.mjs';
import { Badge, State } from '../../ui/state.mjs';
import { Table } from '../../ui/table.mjs';
import { act } from '../../ui/toast.mjs';
import { Ago, Until } from '../../ui/time.mjs';

/** @typedef {{ id: string, app: string, workflow: string, name?: string, schedule: string, cron: string, timeZone: string, onOverlap?: any, paused?: boolean,
 *   next?: string[], last?: { plannedAt: string, outcome?: string, runId?: string, missed?: number } }} Schedule */

/** Overlap policies: treatment of an occurrence while the last run is live. @type {Record<string, string>} */
const OVERLAP = {
  skip: 'while a run is live, the next occurrence is skipped and recorded',
  reject: 'while a run is live, the next occurrence is skipped and recorded',
  allow: 'starts another run beside the live one',
  queue: 'is queued until the live run ends',
  restart: 'replaces the live run',
};

/** @param {{ it: Schedule }} props */
function Overlap({ it }) {
  const word = typeof it.onOverlap === 'string' ? it.onOverlap : (it.onOverlap?.policy ?? 'skip');
  return html`<${Badge} title=${OVERLAP[word]}>${word}</${Badge}>`;
}

/** @param {{ it: Schedule, again: () => void }} props */
function Switch({ it, again }) {
  const name = it.name ?? it.workflow;
  async function flip() {
    const verb = it.paused ? 'resume' : 'pause';
    const done = it.paused ? `${name} resumed` : `${name} paused: no runs are started until it is resumed`;
    if (await act(() => post(path`/schedules/${it.id}/` + verb), done)) again();
  }
  return html`<button type="button" class="small" aria-label=${`${it.paused ? 'Resume' : 'Pause'} ${name}`} onClick=${flip}>${it.paused ? 'Resume' : 'Pause'}</button>`;
}

/** @param {{ last: Schedule['last'] }} props */
function Last({ last }) {
  if (!last) return html`<span class="faint">none yet</span>`;
  return html`${last.outcome && html`<${State} state=${last.outcome} />`} ${last.missed ? html`<${Badge} tone="bad" title="missed occurrences">${count(last.missed)}</${Badge}> ` : null}${
    last.runId && html`<${RunLink} id=${last.runId} /> `}<span class="faint"><${Ago} at=${last.plannedAt} /></span>`;
}

/** @param {() => void} again @returns {import('../../ui/table.mjs').Column[]} */
const columns = (again) => [
  { name: 'Workflow', of: (it) => html`<${WorkflowLink} app=${it.app} name=${it.workflow} /> ${it.name && html`<span class="faint">${it.name}</span>`}` },
  { name: 'Cron', of: (it) => html`<code>${it.cron}</code> <span class="faint">${it.timeZone}</span>` },
  { name: 'Overlap', title: 'policy while the last run is live', of: (it) => html`<${Overlap} it=${it} />` },
  { name: 'Next', num: true, of: (it) => (it.paused ? html`<${Badge} tone="wait">paused</${Badge}>`
    : it.next?.length ? html`<span title=${it.next.map(exact).join('\n')}><${Until} at=${it.next[0]} /></span>` : html`<span class="faint">–</span>`) },
  { name: 'Last', wide: true, of: (it) => html`<${Last} last=${it.last} />` },
  { name: 'Action', num: true, of: (it) => html`<${Switch} it=${it} again=${again} />` },
];

export function Schedules() {
  const told = useList('/schedules', 'schedules', { limit: 100 }, (it) => it.id);
  return html`<${Stale} error=${told.first ? told.error : null} />
    ${notYet({ ...told, value: told.first }) ?? (told.items.length === 0
      ? html`<${Empty} title="No schedules yet">Add a trigger <code>{ cron = "0 6 * * *" }</code> to a workflow, or <code>schedules</code> to a flow.</${Empty}>`
      : html`<div class="squeezed"><${Table} label="Schedules" columns=${columns(told.again)} rows=${told.items} idOf=${(/** @type {Schedule} */ it) => it.id}
          more=${told.next ? told.more : null} moreText="Load more" busy=${told.busy} /></div>`)}`;
}
