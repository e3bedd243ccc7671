import { html } from '../../lib/html.mjs';
import { path } from '../../lib/api.mjs';
import { useFetched } from '../../lib/data.mjs';
import { RunLink } from '../../ui/link.mjs';
import { State } from '../../ui/state.mjs';
import { Until } from '../../ui/time.mjs';

/** Why a run is where it is, in the engine's own words. @param {{ id: string }} props */
export function Why({ id }) {
  const { value, error } = useFetched(path`/runs/${id}/why`);
  return html`<section class="card why" aria-live="polite">
    <h3>Why is <${RunLink} id=${id} /> here?</h3>
    ${value && html`<p><${State} state=${value.state} /></p><p>${withRuns(value.sentence)}</p>
      ${value.earliest && html`<p class="faint">it starts <${Until} at=${value.earliest} /> at the earliest</p>`}`}
    ${!value && error && html`<p class="faint">${error.message}</p>`}
  </section>`;
}

/** A sentence with its runs as links. @param {string} sentence */
const withRuns = (sentence) =>
  sentence.split(/(run_[0-9a-z]+)/).map((part) => (part.startsWith('run_') ? html`<${RunLink} id=${part} />` : part));
