/** Numbers, sizes and times in words. */

/**
 * @param {number} count
 * @param {string} noun
 */
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/**
 * Three digits; a dash for what nobody measured.
 *
 * @param {number|null} value
 */
export const figure = (value) =>
  (value === null ? "–" : value === 0 ? "0" : value >= 1e-3 && value < 1e4 ? String(Number(value.toPrecision(3))) : value.toExponential(1));

/** @param {number} size */
export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(size, 1)) / 10));
  return `${Number((size / 1024 ** at).toPrecision(3))} ${units[at]}`;
}

/** @param {number} seconds */
export function duration(seconds) {
  const { unit, factor } = seconds >= 1 ? { unit: "s", factor: 1 } : seconds >= 1e-3 ? { unit: "ms", factor: 1e3 } : { unit: "µs", factor: 1e6 };
  return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
}

/**
 * For attributes: a tenth of a pixel is less than anybody sees.
 *
 * @param {number} value
 */
export const rounded = (value) => Math.round(value * 10) / 10;
