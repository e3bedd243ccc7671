// Processes under test: the server (the real binary), and the application on an SDK.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const APPS = fileURLToPath(new URL('../apps/', import.meta.url));
const BINARY = process.env.TIDEGATE_BINARY ?? assert.fail('TIDEGATE_BINARY names the binary');

/** The SDKs under test: how the application starts, and what the SDK has. */
export const SDKS = {
  js4: { command: ['node', 'js/app.mjs'], env: { SDK: 'inngest4' }, checkpoints: true, signals: true, race: true, inBand: true, version: 2 },
  js3: { command: ['node', 'js/app.mjs'], env: { SDK: 'inngest3' }, checkpoints: false, signals: true, race: true, inBand: true, version: 1 },
  // TIDEGATE_SDK_GO names the built application: CI has neither the toolchain nor the module.
  ...(process.env.TIDEGATE_SDK_GO && { go: { command: [process.env.TIDEGATE_SDK_GO], env: {}, checkpoints: true, signals: true, race: false, version: 2 } }),
  py: { command: [process.env.TIDEGATE_SDK_PYTHON ?? 'python3', 'py/app.py'], env: { PYTHONDONTWRITEBYTECODE: '1' }, checkpoints: false, signals: false, race: false, inBand: true, version: 2 },
};

/** A child process whose first line of interest names its address. */
export class Process {
  constructor(command, env, folder, name) {
    const log = fs.openSync(path.join(folder, `${name}.log`), 'a');
    this.logFile = path.join(folder, `${name}.log`);
    this.child = spawn(command[0], command.slice(1), { cwd: APPS, stdio: ['ignore', 'pipe', log], env: { ...clean(), ...env } });
    fs.closeSync(log);
    this.output = '';
    this.child.stdout.on('data', (data) => {
      this.output += data;
      fs.appendFileSync(this.logFile, data);
    });
    this.exited = once(this.child, 'exit');
  }

  /** Waits for the part of the output that the pattern captures. */
  async says(pattern) {
    for (;;) {
      const match = this.output.match(pattern);
      if (match) return match[1];
      const wait = Promise.race([once(this.child.stdout, 'data'), this.exited.then(() => 'exited')]);
      if (await wait === 'exited' && !this.output.match(pattern)) {
        throw new Error(`the process exited: ${this.output}${fs.readFileSync(this.logFile, 'utf8').slice(-2000)}`);
      }
    }
  }

  async stop(signal = 'SIGTERM') {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill(signal);
      await this.exited;
    }
  }
}

/** Environment without the variables that the SDKs or the server would read. */
function clean() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(INNGEST|TIDEGATE|NODE_ENV|NODE_TEST|VERCEL|RENDER)/.test(name)));
}

/** Lease of a server, so that others take over the runs of a killed one soon. */
const LEASE = { TIDEGATE_LEASE_TTL_MS: '5000' };

/** Starts the server on a store; `args` are further arguments, `config` the text of its file. */
export async function startServer(folder, store, { args = [], config = '', env = {} } = {}) {
  const file = path.join(folder, 'tidegate.toml');
  fs.writeFileSync(file, config);
  const process = new Process([BINARY, 'serve', '--config', file, '--store', store, '--listen', '127.0.0.1:0', ...args], { ...LEASE, ...env }, folder, 'server');
  process.url = await process.says(/listening on (http:\/\/[0-9.:]+)/);
  return process;
}

/** Starts the application; its log is `app.jsonl` in the folder. */
export async function startApp(folder, sdk, env) {
  const log = path.join(folder, 'app.jsonl');
  const process = new Process(SDKS[sdk].command, { ...SDKS[sdk].env, LOG: log, ...env }, folder, 'app');
  process.url = `http://127.0.0.1:${await process.says(/listening on (\d+)/)}`;
  process.log = log;
  return process;
}
