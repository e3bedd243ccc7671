// Positions of runs in a lane, computed from one update to the next.
import assert from 'node:assert/strict';
import test from 'node:test';
import { follow } from '../../console/pages/gates/follow.mjs';

const gate = (holders, first, count = first.length) => ({ control: 'concurrency', app: 'default', workflow: 'w', key: 'k', limit: 2, inside: holders.length, holders, line: { count, first } });
const places = (tokens) => Object.fromEntries(tokens.map(({ id, where, place }) => [id, `${where} ${place}`]));

test('runs enter, hold, wait and leave', () => {
  let tokens = follow([], gate(['a', 'b'], ['c', 'd']), 0);
  assert.deepEqual(places(tokens), { a: 'in 0', b: 'in 1', c: 'line 0', d: 'line 1' });
  tokens = follow(tokens, gate(['b', 'c'], ['d']), 1000);
  assert.deepEqual(places(tokens), { b: 'in 1', c: 'in 0', d: 'line 0', a: 'left 0' }, 'a run that stays keeps its slot');
  tokens = follow(tokens, gate(['d'], []), 2000);
  assert.deepEqual(places(tokens), { d: 'in 0', b: 'left 0', c: 'left 1', a: 'left 2' });
  tokens = follow(tokens, gate([], []), 9000);
  assert.deepEqual(places(tokens), { d: 'left 0' }, 'a run that has left is removed after a while');
});

test('since when somebody is somewhere is kept while they stay', () => {
  const before = follow([], gate(['a'], ['b']), 10);
  assert.deepEqual(follow(before, gate(['a', 'b'], []), 20).map((it) => it.since), [10, 20]);
});

test('who is pushed back by better ranks has not left', () => {
  const ten = Array.from({ length: 10 }, (_, i) => `r${i}`);
  const before = follow([], gate([], ten, 12), 0);
  const after = follow(before, gate([], ['new', ...ten.slice(0, 9)], 13), 1);
  assert.equal(after.find((it) => it.id === 'r9'), undefined);
  assert.equal(after.filter((it) => it.where === 'left').length, 0);
});

test('a window that fires lets its run go', () => {
  const fold = { control: 'debounce', app: 'default', workflow: 'w', key: 'k', pending: 3, runId: 'r' };
  const before = follow([], fold, 0);
  assert.deepEqual(places(before), { r: 'coming 0' });
  assert.deepEqual(places(follow(before, { ...fold, pending: 0, runId: undefined }, 1)), { r: 'left 0' });
});
