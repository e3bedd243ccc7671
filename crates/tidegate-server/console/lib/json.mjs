// JSON that keeps numbers exact: the engine stores data byte for byte, but a JavaScript number has
// about 16 digits and ends at 1.8e308.

/** `JSON.rawJSON`, which not every browser has; without it numbers are rounded. @type {((text: string) => unknown) | undefined} */
const raw = /** @type {any} */ (JSON).rawJSON;

/** Matches texts that may have a number to preserve: a reviver for every value makes parsing many times slower. */
const LONG = /(^|[[:,\s])-?\d[\d.]{15}|\d[eE]\+?\d{3}/;

/** Number that JavaScript cannot represent: compares as the nearest one, and is written as received. */
export class Exact extends Number {
  #text;

  /** @param {string} text */
  constructor(text) {
    super(text);
    this.#text = text;
  }

  toString() {
    return this.#text;
  }

  toJSON() {
    return raw?.(this.#text);
  }
}

/** @param {string} text @returns {any} a number, or an `Exact` where that would round it */
export function number(text) {
  const value = Number(text);
  const digits = text.replace(/[eE].*/, '').replace(/\D/g, '').replace(/^0+/, '').length;
  const rounded = digits > 15 && !Number.isSafeInteger(value);
  return raw && (rounded || !Number.isFinite(value)) ? new Exact(text) : value;
}

/** @param {string} text @returns {any} */
export function parse(text) {
  if (!raw || !LONG.test(text)) return JSON.parse(text);
  /** @param {string} _name @param {unknown} value @param {{ source: string }} context */
  const whole = (_name, value, context) => (typeof value === 'number' ? number(context.source) : value);
  return JSON.parse(text, /** @type {any} */ (whole));
}
