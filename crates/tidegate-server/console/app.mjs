// The frame: pages at the left, the page at the right. A page is fetched when it is first opened.
import { render } from 'preact';
import { html, signal, useEffect } from './lib/html.mjs';
import { epoch, get, key, locked, unlock } from './lib/api.mjs';
import { blocked, connected, counts } from './lib/live.mjs';
import { count } from './lib/format.mjs';
import { route, to } from './lib/route.mjs';
import './lib/keys.mjs';
import { Failed } from './ui/empty.mjs';
import { Confirm } from './ui/confirm.mjs';
import { Toasts } from './ui/toast.mjs';

/** Name in the address, title, and where its component is. */
const PAGES = /** @type {[string, string, () => Promise<{ default: any }>][]} */ ([
  ['overview', 'Overview', () => import('./pages/overview.mjs')],
  ['workflows', 'Workflows', () => import('./pages/workflows.mjs')],
  ['runs', 'Runs', () => import('./pages/runs.mjs')],
  ['events', 'Events', () => import('./pages/events.mjs')],
  ['gates', 'Gates', () => import('./pages/gates.mjs')],
  ['streams', 'Streams', () => import('./pages/streams.mjs')],
  ['flows', 'Flows', () => import('./pages/flows.mjs')],
  ['try', 'Try it', () => import('./pages/try.mjs')],
]);

const loaded = signal(/** @type {Record<string, any>} */ ({}));
const demo = signal(false);
const tour = signal(/** @type {any} */ (null));
// Whoever comes to a demo for the first time is shown around, unless they came for something.
demo.subscribe((yes) => yes && !localStorage.getItem('tidegate-toured') && /^#?\/?(overview)?$/.test(location.hash) && startTour());

/** @param {{ name: string }} props */
function Page({ name }) {
  const page = PAGES.find(([known]) => known === name);
  const Found = loaded.value[name];
  useEffect(() => {
    document.title = `${page?.[1] ?? 'Nothing here'} · Tidegate`;
    if (!page || Found) return;
    page[2]().then(
      (it) => (loaded.value = { ...loaded.value, [name]: it.default }),
      (error) => (loaded.value = { ...loaded.value, [name]: () => html`<${Failed} error=${error} />` }),
    );
  }, [name, Found]);
  if (!page) return html`<${Failed} error=${new Error(`there is no page “${name}”`)} />`;
  return Found ? html`<${Found} />` : null;
}

/** @param {{ name: string }} props */
function Tally({ name }) {
  if (name === 'runs') return html`<span class="tally" title="running and queued">${count(counts.value.inFlight + counts.value.queued)}</span>`;
  if (name === 'streams' && blocked.value > 0) return html`<span class="tally bad" title="blocked">${count(blocked.value)}</span>`;
  return null;
}

function Link() {
  const on = connected.value;
  const text = on === null ? 'connecting …' : on ? 'live' : 'connection lost, trying again';
  return html`<span class=${`link ${on === null ? '' : on ? 'on' : 'off'}`} role="status">${text}</span>`;
}

function Theme() {
  const chosen = document.documentElement.dataset.theme ?? '';
  /** @param {Event} event */
  function choose(event) {
    const theme = /** @type {HTMLSelectElement} */ (event.target).value;
    localStorage.setItem('tidegate-theme', theme);
    setTheme(theme);
  }
  return html`<label><span class="visually-hidden">Colours</span>
    <select onChange=${choose}>${['', 'light', 'dark'].map((it) => html`<option value=${it} selected=${it === chosen}>${it || 'as the system'}</option>`)}</select></label>`;
}

/** @param {string | null} theme */
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

function Lock() {
  if (locked.value === null) return null;
  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    unlock(String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('key') ?? '').trim());
  }
  return html`<div class="lock"><form class="card stack" onSubmit=${submit}>
    <h1>This server wants a key</h1>
    <p class="soft">${locked.value}</p>
    <label class="field"><span>Key (<code>tg_…</code>), kept for this tab only</span>
      <input name="key" type="password" autocomplete="off" required autofocus value=${key.value} /></label>
    <p class="faint">Make one with <code>tidegate keys create NAME</code>; <code>--read-only</code> is enough to look.</p>
    <p><button class="primary">Open the console</button></p>
  </form></div>`;
}

function App() {
  const { page } = route.value;
  const Tour = tour.value;
  return html`<div class="frame">
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.querySelector('main')?.focus(); }}>Skip to the page</a>
    <div class="side">
      <a class="brand" href=${to('overview')}><img src="console/icon.svg" alt="" /><span>Tidegate</span></a>
      <nav aria-label="Pages"><ul>${PAGES.map(([name, title]) => html`<li><a href=${to(name)} aria-current=${name === page ? 'page' : undefined}>${title}<${Tally} name=${name} /></a></li>`)}</ul></nav>
      <div class="side-foot">
        ${demo.value && html`<button type="button" onClick=${startTour}>Take the tour</button>`}
        <${Link} /><${Theme} />
      </div>
    </div>
    <main tabindex="-1"><${Lock} /><${Page} key=${epoch.value} name=${page} /></main>
    ${Tour && html`<${Tour} close=${() => (tour.value = null)} />`}
    <${Toasts} /><${Confirm} />
  </div>`;
}

async function startTour() {
  localStorage.setItem('tidegate-toured', 'yes');
  tour.value = (await import('./pages/tour.mjs')).default;
}

setTheme(localStorage.getItem('tidegate-theme'));
const root = /** @type {HTMLElement} */ (document.getElementById('app'));
// Else “Loading …” stays below the frame.
root.replaceChildren();
render(html`<${App} />`, root);
get('/health').then((told) => (demo.value = Boolean(told?.demo)), () => {});
