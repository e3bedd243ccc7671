// The pages of the book for SDKs: their code, extracted and run from an empty directory.
//
// Blocks of `sh` run in order, in one shell; a block with `file=` is written to that file before the
// next one runs. A block of `text` is what the commands before it print; `…` stands for any text. How
// long each section of the page took is printed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { newStore } from './rig/stores.mjs';

const DOCS = fileURLToPath(new URL('../../../../docs/', import.meta.url));
const only = (process.env.TIDEGATE_SDK_TESTS ?? '').split(' ').filter(Boolean);
const full = Boolean(process.env.TIDEGATE_TEST_FULL);
const PATIENCE = 800_000;

/** The fenced blocks of a page: `{section, language, file, text}`. */
function blocks(page) {
  const text = fs.readFileSync(path.join(DOCS, page), 'utf8');
  let section = '';
  const parts = [];
  for (const [, heading, language, file, body] of text.matchAll(/^(?:## ([^\n]+)|```(\w+)(?: file=(\S+))?\n(.*?)^```)$/gms)) {
    if (heading) section = heading;
    else parts.push({ section, language, file, text: body });
  }
  return parts;
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Gives each server and application of a page a free port, so that nothing else is in the way. */
async function withFreePorts(script) {
  const ports = {};
  for (const port of ['3000', '7400', '7401', '8288']) ports[port] = await freePort();
  const own = script
    .replaceAll('INNGEST_DEV=1', 'INNGEST_DEV=http://127.0.0.1:8288')
    .replaceAll('tidegate dev ', 'tidegate dev --sdk-listen 127.0.0.1:8288 ')
    .replace(/\b(3000|7400|7401|8288)\b/g, (port) => ports[port]);
  return { script: own, url: `http://127.0.0.1:${ports[7400]}`, listen: `127.0.0.1:${ports[7400]}` };
}

/** The page as one script. Each expected output is preceded by a line that ends the output before. */
function toScript(parts) {
  const lines = ['set -u'];
  parts.forEach(({ language, file, text }, i) => {
    if (file) lines.push(`cat > ${file} <<'END_OF_FILE'\n${text}END_OF_FILE`);
    else if (language === 'sh') lines.push(text, `printf '\\n--- block ${i} %s\\n' $EPOCHREALTIME`);
  });
  return lines.join('\n');
}

/** Whether the output of a block is what the page says. */
function matches(output, expected) {
  const escaped = expected.trim().replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/ +/g, ' +').replaceAll('…', '[^]*');
  return new RegExp(escaped).test(output.trim());
}

/** Output and end of each block that has ended, by its number. */
function ended(output) {
  const blocks = new Map();
  let text = '';
  for (const line of output.split('\n')) {
    const end = line.match(/^--- block (\d+) (\S+)/);
    if (end) blocks.set(Number(end[1]), { text, end: Number(end[2].replace(',', '.')) });
    text = end ? '' : `${text}${line}\n`;
  }
  return blocks;
}

/** How long each section took, in seconds, one in a line. */
function times(parts, blocks, begin) {
  const ends = new Map();
  for (const [number, { end }] of blocks) ends.set(parts[number].section, end);
  let last = begin;
  const lines = [...ends].map(([section, end]) => {
    const line = `${(end - last).toFixed(1).padStart(7)} s  ${section}`;
    last = end;
    return line;
  });
  return [...lines, `${(last - begin).toFixed(1).padStart(7)} s  from an empty directory to the end`].join('\n');
}

/** The ends of the logs that the page has written. */
function logs(folder) {
  const files = fs.readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.log') && !file.includes('node_modules'));
  return files.map((file) => `${file}: ${fs.readFileSync(path.join(folder, file), 'utf8').slice(-2000)}`).join('\n');
}

/**
 * Folder of a page: in memory, if there is room for its packages. They are many files, and to remove
 * them took three minutes on the disk of a machine that compiles at the same time.
 */
function newFolder() {
  let parent = os.tmpdir();
  try {
    const { bavail, bsize } = fs.statfsSync('/dev/shm');
    if (bavail * bsize > 2 ** 30) parent = '/dev/shm';
  } catch {
    // There is no such folder on other systems.
  }
  return fs.mkdtempSync(path.join(parent, 'tidegate-page-'));
}

async function run(page) {
  const parts = blocks(page);
  const folder = newFolder();
  const store = process.env.TIDEGATE_TEST_POSTGRES ? await newStore(folder, 'postgres') : null;
  const { script, url, listen } = await withFreePorts(toScript(parts));
  fs.mkdirSync(path.join(folder, 'bin'));
  fs.symlinkSync(process.env.TIDEGATE_BINARY, path.join(folder, 'bin/tidegate'));
  fs.mkdirSync(path.join(folder, 'empty'));
  const begin = Date.now() / 1000;
  const shell = spawn('bash', ['-c', script], {
    cwd: path.join(folder, 'empty'),
    detached: true, // a process group, so that nothing of the page outlives its test
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, PATH: `${folder}/bin:${process.env.PATH}`, TIDEGATE_URL: url, TIDEGATE_LISTEN: listen, ...(store && { DATABASE: store.url }) },
  });
  let [output, errors] = ['', ''];
  shell.stdout.on('data', (data) => { output += data; });
  shell.stderr.on('data', (data) => { errors += data; });
  const late = setTimeout(() => process.kill(-shell.pid, 'SIGKILL'), PATIENCE);
  const [status] = await once(shell, 'exit');
  clearTimeout(late);
  try {
    process.kill(-shell.pid, 'SIGKILL');
  } catch {
    // Nothing is left.
  }
  await store?.remove();
  const said = `${output}\n${errors}`;
  const outputs = ended(output);
  console.log(`${page}:\n${times(parts, outputs, begin)}`);
  assert.equal(status, 0, `${page} did not end: ${said}\n${logs(path.join(folder, 'empty'))}`);
  parts.forEach((part, i) => {
    if (part.language !== 'text') return;
    assert.ok(matches(outputs.get(i - 1)?.text ?? '', part.text), `${page} expects\n${part.text}but the commands printed\n${outputs.get(i - 1)?.text}\nof\n${said}`);
  });
  fs.rmSync(folder, { recursive: true });
}

for (const [number, page, needsPostgres] of [['P1', 'typescript.md', true], ['P2', 'python.md', false]]) {
  const skip = needsPostgres && !process.env.TIDEGATE_TEST_POSTGRES && 'the page has two servers on PostgreSQL';
  // The pages install their packages, which takes longer than all other tests: with --full, or named.
  if (only.length ? only.includes(number) : full) {
    test(`${number}: the code of docs/${page} runs as it says`, { skip }, () => run(page));
  }
}
