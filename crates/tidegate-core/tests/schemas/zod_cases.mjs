// Writes zod.json: schemas of zod 4 and of zod 3 with zod-to-json-schema, and zod's own verdict on
// values.
//
// npm install zod@4.6.7 zod-to-json-schema@3.25.2 && node zod_cases.mjs

import { writeFileSync } from "node:fs";
import * as z from "zod";
import { z as z3 } from "zod/v3";
import { zodToJsonSchema } from "zod-to-json-schema";

const Point = z.object({ x: z.number(), y: z.number().int() }).meta({ id: "Point" });
const Line = z.strictObject({ from: Point, to: Point, label: z.string().max(5).optional() });
const Node = z.object({
  value: z.int(),
  get children() {
    return z.array(Node);
  },
});
const Shape = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("circle"), r: z.number().positive() }),
  z.object({ kind: z.literal("rect"), w: z.number().min(1), h: z.number().min(1) }),
]);
const Text = z.object({
  email: z.email().optional(),
  uuid: z.uuid().optional(),
  at: z.iso.datetime().optional(),
  day: z.iso.date().optional(),
  v4: z.ipv4().optional(),
  v6: z.ipv6().optional(),
  net: z.cidrv6().optional(),
  id: z.nanoid().optional(),
  hex: z.string().regex(/^[0-9a-f]+$/).optional(),
  word: z.string().regex(/^(?=.*[A-Z])(?=.*\d).{4,}$/).optional(),
  ends: z.string().endsWith("!").optional(),
  token: z.base64url().optional(),
});
const Mixed = z.object({
  size: z.enum(["s", "m"]),
  maybe: z.string().nullable(),
  either: z.union([z.string(), z.number(), z.array(z.boolean())]),
  both: z.intersection(z.object({ a: z.string() }), z.object({ b: z.string() })),
  pair: z.tuple([z.string(), z.number()]),
  rest: z.tuple([z.string()], z.number()),
  counts: z.record(z.string(), z.number()),
  bySize: z.partialRecord(z.enum(["s", "m"]), z.number()),
  never: z.never().optional(),
  nothing: z.null(),
  even: z.number().multipleOf(2).lt(10),
  any: z.any(),
  few: z.array(z.int()).min(1).max(2),
});
const MIXED = {
  size: "s", maybe: null, either: 1, both: { a: "1", b: "2" }, pair: ["a", 1], rest: ["a", 1, 2],
  counts: { a: 1 }, bySize: { s: 1 }, nothing: null, even: 4, any: 1, few: [1],
};
const mixed = (changes) => ({ ...MIXED, ...changes });

const Old = z3.object({
  name: z3.string().min(1).describe("A name"),
  email: z3.string().email().optional(),
  pair: z3.tuple([z3.string(), z3.number()]),
  self: z3.lazy(() => Old).optional(),
  kind: z3.union([z3.literal("a"), z3.literal("b")]),
  map: z3.record(z3.string().regex(/^k/), z3.number()).optional(),
  either: z3.union([z3.object({ n: z3.number() }), z3.null()]),
  both: z3.object({ a: z3.string() }).and(z3.object({ b: z3.string() })).optional(),
}).strict();
const OLD = { name: "n", pair: ["a", 1], kind: "a", either: null };
const old = (changes) => ({ ...OLD, ...changes });

const line = { from: { x: 1, y: 2 }, to: { x: 1.5, y: -2 } };
const CASES = [
  ["line", Line, [
    line, { ...line, label: "a" }, { ...line, label: "abcdef" }, { ...line, more: 1 },
    { ...line, from: { x: 1 } }, { ...line, from: { x: 1, y: 1.5 } }, { from: line.from }, [line],
  ]],
  ["node", Node, [
    { value: 1, children: [] },
    { value: 1, children: [{ value: 2, children: [] }] },
    { value: 1, children: [{ value: 2 }] },
    { value: 1, children: [{ value: "2", children: [] }] },
  ]],
  ["shape", Shape, [
    { kind: "circle", r: 1 }, { kind: "circle", r: 0 }, { kind: "rect", w: 1, h: 1 },
    { kind: "rect", w: 1 }, { kind: "line" }, {}, "circle",
  ]],
  ["text", Text, [
    {}, { email: "a@b.de" }, { email: "a..b@c.de" }, { email: ".a@b.de" }, { email: "a@b" },
    { uuid: "6d4b5e0a-9f0e-4a64-8d6e-0d6e0a9f0e4a" }, { uuid: "6d4b5e0a" },
    { at: "2026-11-16T12:00:00Z" }, { at: "2026-11-16 12:00" }, { at: "2026-02-29T12:00:00Z" },
    { day: "2028-02-29" }, { day: "2026-02-29" },
    { v4: "127.0.0.1" }, { v4: "256.0.0.1" }, { v6: "::1" }, { v6: "1::2::3" },
    { net: "2001:db8::/32" }, { net: "2001:db8::/129" },
    { id: "V1StGXR8_Z5jdHi6B-myT" }, { id: "short" },
    { hex: "0a" }, { hex: "0A" }, { word: "aB3d" }, { word: "ab3d" }, { word: "aBcd" },
    { ends: "hi!" }, { ends: "hi" }, { token: "a_-Z" }, { token: "a+" },
  ]],
  ["mixed", Mixed, [
    MIXED, mixed({ size: "l" }), mixed({ maybe: "a" }), mixed({ maybe: 1 }), mixed({ either: "a" }),
    mixed({ either: [true] }), mixed({ either: [1] }), mixed({ either: null }),
    mixed({ both: { a: "1" } }), mixed({ pair: ["a"] }), mixed({ pair: [1, "a"] }),
    mixed({ pair: ["a", 1, 2] }), mixed({ rest: ["a"] }), mixed({ rest: ["a", "b"] }),
    mixed({ counts: { a: "1" } }), mixed({ bySize: { l: 1 } }), mixed({ never: 1 }),
    mixed({ nothing: 0 }), mixed({ even: 3 }), mixed({ even: 10 }), mixed({ few: [] }),
    mixed({ few: [1, 2, 3] }), mixed({ few: [1.5] }), {},
  ]],
  ["old", Old, [
    OLD, old({ name: "" }), old({ email: "a@b.de" }), old({ pair: ["a"] }), old({ pair: [1, 1] }),
    old({ pair: ["a", 1, 2] }), old({ self: OLD }), old({ self: old({ kind: "c" }) }),
    old({ kind: "b" }), old({ kind: "c" }), old({ map: { k1: 1 } }), old({ map: { k1: "1" } }),
    old({ map: { x: 1 } }), old({ either: { n: 1 } }), old({ either: { n: "1" } }),
    old({ both: { a: "1", b: "2" } }), old({ both: { a: "1" } }), old({ more: 1 }),
  ]],
];

const cases = CASES.map(([name, type, values]) => ({
  name,
  schema: name === "old" ? zodToJsonSchema(type) : z.toJSONSchema(type, { io: "input" }),
  values: values.map((value) => ({ value, fits: type.safeParse(value).success })),
}));
writeFileSync(new URL("zod.json", import.meta.url), JSON.stringify(cases, null, 1) + "\n");
