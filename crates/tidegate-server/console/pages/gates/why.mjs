import { html } from '../../lib/html.mjs';
import { path } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { RunLink } from '../../ui/link.mjs';
import { State } from '../../ui/state.mjs';
import { Until } from '../../ui/time.mjs';

/** The engine's explanation of a run's state. @param {{ id: string }} props */
export function Why({ id }) {
  const { value, error } = useFetched(path`/runs/${id}/why`);
  return html`<div class="gate-why">
    ${value && html`<${State} state=${value.state} />: ${withRuns(value.sentence)}${value.earliest ? html` <span class="faint">Earliest start <${Until} at=${value.earliest} />.</span>` : ''}`}
    ${!value && (error ? error.message : html`<span class="faint">Loading …</span>`)}
  </div>`;
}

/** Sentence with links to its runs. @param {string} sentence */
const withRuns = (sentence) =>
  sentence.split(/(run_[0-9a-z]+)/).map((part) => (part.startsWith('run_') ? html`<${RunLink} id=${part} />` : part));
