// What the clock starts: when each fires next, and a hand on the switch.
import { html } from '../../lib/html.mjs';
import { path, post } from '../../lib/api.mjs';
import { count, exact } from '../../lib/format.mjs';
import { to } from '../../lib/route.mjs';
import { Empty, Stale } from '../../ui/empty.mjs';
import { WorkflowLink } from '../../ui/link.mjs';
import { Badge } from '../../ui/state.mjs';
import { Table } from '../../ui/table.mjs';
import { act } from '../../ui/toast.mjs';
import { Ago, Until } from '../../ui/time.mjs';

/** @typedef {{ id?: string, app: string, workflow: string, schedule: string, cron: string, timeZone: string, onOverlap?: string, paused?: boolean, next?: string[], last?: any }} Schedule */

/** @param {Schedule} it */
const idOf = (it) => it.id ?? `${it.app}/${it.workflow}/${it.schedule}`;
/** When it was last planned, however that is told. @param {any} last */
const lastAt = (last) => (last && typeof last === 'object' ? (last.plannedAt ?? last.at) : last);

/** @param {{ it: Schedule, again: () => void }} props */
function Switch({ it, again }) {
  if (it.id === undefined) return null;
  const id = it.id;
  async function flip() {
    const verb = it.paused ? 'resume' : 'pause';
    if (await act(() => post(path`/schedules/${id}/` + verb), it.paused ? `${it.schedule} fires again` : `${it.schedule} is paused: nothing fires until it is resumed`)) again();
  }
  return html`<button type="button" class="small" onClick=${flip}>${it.paused ? 'Resume' : 'Pause'}</button>`;
}

/** @param {() => void} again @returns {import('../../ui/table.mjs').Column[]} */
const columns = (again) => [
  { name: 'Schedule', of: (it) => html`<b>${it.schedule}</b> ${it.paused && html`<${Badge} tone="wait">paused</${Badge}>`}` },
  { name: 'Starts', of: (it) => html`<${WorkflowLink} app=${it.app} name=${it.workflow} />` },
  { name: 'When', of: (it) => html`<code>${it.cron}</code> <span class="faint">${it.timeZone}</span>` },
  { name: 'Overlap', title: 'what happens while the last one still runs', of: (it) => (it.onOverlap === 'allow'
    ? html`<${Badge} title="starts another beside the one that still runs">allow</${Badge}>` : html`<${Badge} title="while one still runs, the next is skipped, and recorded">skip</${Badge}>`) },
  { name: 'Next', num: true, of: (it) => (it.paused || !it.next?.length ? html`<span class="faint">–</span>` : html`<span title=${it.next.map(exact).join('\n')}><${Until} at=${it.next[0]} /></span>`) },
  { name: 'Last', num: true, of: (it) => html`<${Ago} at=${lastAt(it.last)} />` },
  { name: 'Switch', num: true, of: (it) => html`<${Switch} it=${it} again=${again} />` },
];

/** @param {{ told: { value: any, error: Error | null, again: () => void } }} props */
export function Schedules({ told }) {
  const rows = /** @type {Schedule[]} */ (told.value?.schedules ?? []);
  if (rows.length === 0) return html`<${Empty} title="Nothing is started by the clock">Give a workflow a trigger <code>{ cron = "0 6 * * *" }</code>, or a flow <code>schedules</code>, and it shows here with its next times.</${Empty}>`;
  return html`<${Stale} error=${told.error} /><p class="faint under-head">${count(rows.length)} in all. Their runs are under <a href=${to('runs')}>Runs</a>.</p>
    <${Table} label="Schedules" columns=${columns(told.again)} rows=${rows} idOf=${idOf} />`;
}
