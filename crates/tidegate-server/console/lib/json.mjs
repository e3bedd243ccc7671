// JSON whose numbers stay what they are: the engine keeps data byte for byte, and a number of
// JavaScript has about 16 digits and ends at 1.8e308.

/** Not in every browser; without it numbers are rounded. @type {((text: string) => unknown) | undefined} */
const raw = /** @type {any} */ (JSON).rawJSON;

/** Whether there may be one at all: a look at every value makes reading many times slower. */
const LONG = /(^|[[:,\s])-?\d[\d.]{15}|\d[eE]\+?\d{3}/;

/** A number that JavaScript cannot hold: it counts as the nearest, and is written as it was. */
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
