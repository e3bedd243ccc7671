// A store of its own for each world: a SQLite file, or a database of TIDEGATE_TEST_POSTGRES.
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';

const cluster = process.env.TIDEGATE_TEST_POSTGRES;
export const STORE = process.env.TIDEGATE_SDK_STORE ?? 'sqlite';

const sql = (statement) => execFileSync('psql', ['-qX', cluster, '-c', statement]);

/** Creates a store; `several` servers can share it only on PostgreSQL. */
export async function newStore(folder, kind = STORE) {
  if (kind === 'sqlite') return { kind, url: `sqlite:${folder}/store.db`, remove: async () => {} };
  const name = `sdk_${randomUUID().slice(0, 8)}`;
  sql(`create database ${name}`);
  return {
    kind,
    url: cluster.replace(/\/[^/]*$/, `/${name}`),
    remove: async () => sql(`drop database ${name} with (force)`),
  };
}
