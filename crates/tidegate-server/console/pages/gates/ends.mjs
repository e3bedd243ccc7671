// Ends of overrides that a form offers.

/** Ends in minutes from now; `''` is none, `at` is a given time. @type {[string, string][]} */
export const ENDS = [['', 'no end'], ['15', '15 min from now'], ['60', '1 h from now'], ['480', '8 h from now'], ['1440', '1 d from now'], ['at', 'at a time']];

/** Time of a chosen end; none without an end, `''` while the time is missing. @param {string} end @param {string} at */
export function endOf(end, at) {
  if (end === '') return undefined;
  if (end === 'at') return at && new Date(at).toISOString();
  return new Date(Date.now() + Number(end) * 60_000).toISOString();
}
