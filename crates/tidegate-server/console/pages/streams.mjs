// Streams: their events, the positions of reactions in them, and the actions unblock and reset.
import { html } from '../lib/html.mjs';
import { blocked } from '../lib/live.mjs';
import { count } from '../lib/format.mjs';
import { route, setQuery, to } from '../lib/route.mjs';
import { Tabs } from '../ui/tabs.mjs';
import { Badge } from '../ui/state.mjs';
import { Heads } from './streams/heads.mjs';
import { Mend } from './streams/mend.mjs';
import { Places } from './streams/places.mjs';
import { Stream } from './streams/stream.mjs';

export default function Streams() {
  const { query } = route.value;
  const heads = query.get('view') === 'streams';
  const open = query.get('open');
  const remedy = query.get('mend');
  return html`
    <div class="page-head"><h1>Streams</h1><p>Ordered event logs, and the reactions that consume them.</p>
      <${Tabs} label="View" tabs=${[
        { text: html`Reactions ${blocked.value > 0 && html`<${Badge} tone="bad">${count(blocked.value)} blocked</${Badge}>`}`, href: to('streams'), here: !heads },
        { text: 'All streams', href: to('streams', { view: 'streams' }), here: heads },
      ]} /></div>
    ${heads ? html`<${Heads} />` : html`<${Places} />`}
    ${open !== null && html`<${Stream} key=${open} name=${open} close=${() => setQuery({ open: undefined })} />`}
    ${(remedy === 'unblock' || remedy === 'reset') && html`<${Mend} remedy=${remedy} close=${() => setQuery({ mend: undefined, of: undefined })} />`}`;
}
