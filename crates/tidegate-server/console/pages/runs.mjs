// List of runs, or the page of one run.
import { html } from '../lib/html.mjs';
import { route } from '../lib/route.mjs';
import { RunList } from './runs/list.mjs';
import { RunPage } from './runs/run.mjs';

export default function Runs() {
  const [id] = route.value.rest;
  return id ? html`<${RunPage} key=${id} id=${id} />` : html`<${RunList} />`;
}
