// The subset of JSON Schema that the forms support.

/** Schema with references resolved and `null` removed. @param {any} schema @param {any} root @returns {any} */
export function plain(schema, root, depth = 0) {
  if (!schema || typeof schema !== 'object' || depth > 8) return {};
  if (typeof schema.$ref === 'string' && schema.$ref.startsWith('#/')) {
    const found = schema.$ref.slice(2).split('/').reduce((/** @type {any} */ at, /** @type {string} */ name) => at?.[name.replaceAll('~1', '/').replaceAll('~0', '~')], root);
    const { $ref: _, ...beside } = schema;
    return { ...plain(found, root, depth + 1), ...beside };
  }
  const ways = schema.anyOf ?? schema.oneOf ?? (schema.allOf?.length === 1 ? schema.allOf : undefined);
  if (ways) {
    const left = ways.filter((/** @type {any} */ it) => it?.type !== 'null');
    const { anyOf: _a, oneOf: _o, allOf: _l, ...beside } = schema;
    if (left.length === 1) return { ...plain(left[0], root, depth + 1), ...beside };
    if (left.every((/** @type {any} */ it) => it && 'const' in it)) return { ...beside, enum: left.map((/** @type {any} */ it) => it.const) };
    return schema;
  }
  if (Array.isArray(schema.type)) {
    const left = schema.type.filter((/** @type {string} */ it) => it !== 'null');
    return { ...schema, type: left.length === 1 ? left[0] : undefined };
  }
  return schema;
}

/** Whether a form can be generated from a schema. @param {any} schema */
export function fits(schema) {
  const it = plain(schema, schema);
  return Boolean(it.properties && Object.keys(it.properties).length > 0);
}

/** Default value for a schema. @param {any} schema @param {any} root @returns {any} */
export function template(schema, root = schema, depth = 0) {
  const it = plain(schema, root);
  if ('default' in it) return it.default;
  if ('const' in it) return it.const;
  if (it.examples?.length) return it.examples[0];
  if (it.enum?.length) return it.enum[0];
  if (it.properties && depth < 6) {
    const wanted = it.required ?? [];
    const names = Object.keys(it.properties).filter((name) => depth === 0 || wanted.includes(name));
    return Object.fromEntries(names.map((name) => [name, template(it.properties[name], root, depth + 1)]));
  }
  return { string: '', integer: it.minimum ?? 0, number: it.minimum ?? 0, boolean: false, array: [], object: {} }[/** @type {string} */ (it.type)] ?? null;
}
