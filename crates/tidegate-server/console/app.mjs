// Application shell: navigation at the left, the current page at the right. A page's module is
// loaded when the page is first opened.
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

/** Route name, title, and loader of the page's component. */
const PAGES = /** @type {[string, string, () => Promise<{ default: any }>][]} */ ([
  ['overview', 'Overview', () => import('./pages/overview.mjs')],
  ['workflows', 'Workflows', () => import('./pages/workflows.mjs')],
  ['runs', 'Runs', () => import('./pages/runs.mjs')],
  ['events', 'Events', () => import('./pages/events.mjs')],
  ['gates', 'Gates', () => import('./pages/gates.mjs')],
  ['pools', 'Pools', () => import('./pages/pools.mjs')],
  ['streams', 'Streams', () => import('./pages/streams.mjs')],
  ['flows', 'Flows & Schedules', () => import('./pages/flows.mjs')],
  ['audit', 'Audit log', () => import('./pages/audit.mjs')],
  ['try', 'Try it', () => import('./pages/try.mjs')],
]);

const loaded = signal(/** @type {Record<string, any>} */ ({}));
const demo = signal(false);
const tour = signal(/** @type {any} */ (null));
// The tour starts on the first visit to a demo, unless the visitor followed a link to a page.
demo.subscribe((yes) => yes && !localStorage.getItem('tidegate-toured') && /^#?\/?(overview)?$/.test(location.hash) && startTour());

/** @param {{ name: string }} props */
function Page({ name }) {
  const page = PAGES.find(([known]) => known === name);
  const Found = loaded.value[name];
  useEffect(() => {
    document.title = `${page?.[1] ?? 'Not found'} · Tidegate`;
    if (!page || Found) return;
    page[2]().then(
      (it) => (loaded.value = { ...loaded.value, [name]: it.default }),
      (error) => (loaded.value = { ...loaded.value, [name]: () => html`<${Failed} error=${error} />` }),
    );
  }, [name, Found]);
  if (!page) return html`<${Failed} error=${new Error(`page “${name}” not found`)} />`;
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
  const text = on === null ? 'connecting …' : on ? 'live' : 'disconnected, reconnecting …';
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
  return html`<label><span class="visually-hidden">Theme</span>
    <select onChange=${choose}>${[['', 'System'], ['light', 'Light'], ['dark', 'Dark']].map(([it, text]) => html`<option value=${it} selected=${it === chosen}>${text}</option>`)}</select></label>`;
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
    <h1>API key required</h1>
    <p class="soft">${locked.value}</p>
    <label class="field"><span>API key (<code>tg_…</code>), stored for this tab only</span>
      <input name="key" type="password" autocomplete="off" required autofocus value=${key.value} /></label>
    <p class="faint">Create one with <code>tidegate keys create --name NAME</code>; a <code>--read-only</code> key can view everything.</p>
    <p><button class="primary">Open console</button></p>
  </form></div>`;
}

function App() {
  const { page } = route.value;
  const Tour = tour.value;
  return html`<div class="frame">
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.querySelector('main')?.focus(); }}>Skip to content</a>
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
// Removes the static “Loading …” text: rendering would leave it below the application.
root.replaceChildren();
render(html`<${App} />`, root);
get('/health').then((told) => (demo.value = Boolean(told?.demo)), () => {});
