import { html, useEffect, useRef, useState } from '../../lib/html.mjs';
import { table } from '../../lib/controls.mjs';
import { controlsOf } from '../../ui/controls.mjs';
import { idOf, keyWords, kindOf } from './gate.mjs';
import { Lane, places } from './lane.mjs';

/** Width of the label. */
const BRIEF = 150;
/** @param {number} width */
const labelled = (width) => Math.round(Math.max(196, Math.min(320, width * 0.3)));

/** @typedef {import('./gate.mjs').Gate} Gate */

/** Headings above lanes that are all of one kind. @type {Record<string, [string, string, string]>} */
const HEADS = {
  slots: ['queued', 'inside', 'left'],
  throttle: ['queued', 'next grants', 'started'],
  rateLimit: ['', 'tokens left, next refill', ''],
  fold: ['events', 'time left', 'started'],
};
/** @param {Gate} gate */
const headOf = (gate) => (kindOf(gate) === 'meter' ? gate.control : kindOf(gate));

/**
 * List of lanes of equal width, so that their gates are aligned.
 *
 * @param {{ gates: Gate[], label: string, chosen: string | null, open: (gate: Gate) => void, workflows: any[], brief?: boolean }} props
 *   `brief`: all gates are of one control, which is shown elsewhere
 */
export function Lanes({ gates, label, chosen, open, workflows, brief }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  // On a phone the label is above its lane.
  const stacked = width > 0 && width < 560;
  const side = stacked ? 0 : brief ? BRIEF : labelled(width);
  const at = places(width - side);
  const [waits, inside, left] = (brief && gates[0] && HEADS[headOf(gates[0])]) || HEADS.slots;
  return html`<section class=${`lanes${stacked ? ' tall' : ''}`} aria-label=${label} ref=${box} style=${{ '--label': `${side}px` }}>
    <div class="lanes-head" aria-hidden="true"><span style=${{ left: '12px' }}>${brief ? 'Key' : 'Gate'}</span>
      ${width > 0 && html`<span style=${{ right: `${width - side - at.line + 12}px` }}>${at.line < 190 || !waits || waits === 'events' ? waits : `${waits}, first at the right`}</span>
      <span style=${{ left: `${side + at.line + 4}px` }}>${inside}</span><span style=${{ left: `${side + at.exit + 10}px` }}>${left}</span>`}</div>
    ${gates.map((gate) => {
      const { it } = definitionOf(gate, workflows) ?? {};
      return html`<${Lane} key=${idOf(gate)} gate=${gate} width=${width - side} open=${open} style=${brief ? 'brief' : side < 240 ? 'narrow' : 'wide'} chosen=${chosen === idOf(gate)}
        wholeMs=${it?.periodMs ?? it?.timeoutMs} maxSize=${it?.maxSize} />`;
    })}
  </section>`;
}

/** Definition of a gate's control in the current release. @param {Gate} gate @param {any[]} workflows */
export function definitionOf(gate, workflows) {
  const workflow = workflows.find((it) => it.app === gate.app && it.name === gate.workflow);
  const same = controlsOf(workflow?.flowControl, table.value).filter((it) => it.control === gate.control && !it.it.pool);
  const path = (/** @type {any} */ key) => (Array.isArray(key) ? key.join('.') : (key ?? ''));
  const found = same.find(({ it }) => path(it.key ?? it.keyField) === (gate.slot ?? ''));
  return found ?? (gate.letsIn?.startsWith('open') ? undefined : same[0]);
}

/** Treatment of an occurrence that overlaps a live run. @type {Record<string, string>} */
const OVERLAP = { skip: 'is skipped', reject: 'is skipped', queue: 'is queued until it ends', restart: 'replaces it' };

/** @param {Gate} gate of a schedule @param {any[]} workflows */
function overlapOf(gate, workflows) {
  const triggers = /** @type {any[]} */ (workflows.find((it) => it.app === gate.app && it.name === gate.workflow)?.triggers ?? []);
  const schedule = triggers.find((it) => it.cron && (it.cron === gate.key || `${it.cron} ${it.timeZone}` === gate.key));
  // The policy is unknown if the schedule is not loaded yet or no longer defined: list all
  // possibilities.
  return (schedule && OVERLAP[schedule.onOverlap?.policy ?? schedule.onOverlap ?? 'skip']) ?? 'is skipped, is queued or replaces it, by its onOverlap policy';
}

/** Sentences for a gate: one, or one for each action that shares it. @param {Gate} gate @param {any[]} workflows @returns {string[]} */
export function sentencesOf(gate, workflows) {
  if (gate.control === 'onOverlap') return [`One run of this schedule at a time; an occurrence during a live run ${overlapOf(gate, workflows)}`];
  if (gate.control === 'pause') return [`Holds back first starts ${gate.key === '(whole)' ? 'of the workflow' : `with ${keyWords(gate)}`} while they are paused; what has started goes on`];
  if (gate.control === 'dedupeId') return ['Events with this dedupeId are recorded once in 24 h; repeats are deduped'];
  if (gate.control === 'policy') {
    const actions = workflows.filter((it) => it.app === gate.app && it.name.startsWith(`${gate.workflow}/`));
    return actions.flatMap((it) => controlsOf(it.flowControl, table.value).filter((one) => one.control === 'policy').map((one) => `${it.name.slice(gate.workflow.length + 1)}: ${one.sentence}`));
  }
  const found = definitionOf(gate, workflows)?.sentence ?? gate.letsIn;
  return found ? [found] : [];
}
