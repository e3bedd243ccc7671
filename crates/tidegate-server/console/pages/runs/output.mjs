import { html, useEffect, useRef, useSignal } from '../../lib/html.mjs';
import { path } from '../../lib/api.mjs';
import { count } from '../../lib/format.mjs';
import { follow } from '../../lib/sse.mjs';

/** Maximum number of chunks kept in the page. */
const KEPT = 2000;

/**
 * Chunks that a run emits.
 *
 * @param {string} id @param {() => void} changed called when the state of the run changes
 */
export function useOutput(id, changed) {
  const chunks = useSignal({ parts: /** @type {unknown[]} */ ([]), left: 0 });
  const tell = useRef(changed);
  tell.current = changed;
  useEffect(() => {
    let news = /** @type {unknown[]} */ ([]);
    let frame = 0;
    function show() {
      frame = 0;
      const { parts, left } = chunks.peek();
      const all = parts.concat(news);
      news = [];
      chunks.value = { parts: all.slice(-KEPT), left: left + Math.max(0, all.length - KEPT) };
    }
    const stop = follow(path`/runs/${id}/stream`, {
      on(event, data) {
        if (event !== 'chunk') return tell.current();
        news.push(data);
        frame ||= requestAnimationFrame(show);
      },
      until: (event) => event === 'end' || event === 'replaced',
    });
    return () => {
      cancelAnimationFrame(frame);
      stop();
    };
  }, [id]);
  return chunks.value;
}

/** @param {{ parts: unknown[], left: number, live: boolean }} props */
export function Output({ parts, left, live }) {
  const box = useRef(/** @type {HTMLPreElement | null} */ (null));
  const end = useRef(true);
  useEffect(() => {
    if (box.current && end.current) box.current.scrollTop = box.current.scrollHeight;
  }, [parts]);
  const flows = parts.every((it) => typeof it === 'string');
  const text = parts.map((it) => (typeof it === 'string' ? it : JSON.stringify(it))).join(flows ? '' : '\n');
  return html`<section class="card"><h2>Emitted output${live ? html` <span class="badge go">live</span>` : ''}</h2>
    ${left > 0 && html`<p class="faint">${count(left)} earlier chunks are not shown.</p>`}
    <pre class="output" ref=${box} tabindex="0" aria-label="Output" onScroll=${() => { const it = box.current; if (it) end.current = it.scrollHeight - it.scrollTop - it.clientHeight < 20; }}>${text}</pre></section>`;
}
