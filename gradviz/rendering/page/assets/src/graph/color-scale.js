/**
 * From measured figures to the steps of a colour ramp, as `gradviz.rendering.look.scales` does for still pictures.
 *
 * A scale holds the figures of what is shown: what is folded away, often smaller by many decades, does not count.
 *
 * @typedef {"gradient"|"memory"|"time"} Quantity
 * @typedef {{low: number, high: number, isLog: boolean, words: string}} Scale `words` name its two ends
 */
import { bytes, duration } from "../shared/number-words.js";

export const STEPS = 7;
/** A gradient that hardly changes must not run through all colours. */
const MIN_DECADES = 4;
const MAX_DECADES = 16;
const MIN_FACTOR_OF_BYTES = 100;
/** The share of the times that is usual: the first call of an operation can take a hundred times as long. */
const USUAL = 0.9;
/** In spans of the middle half of the figures: what lies further from it is an outlier, as in a box plot. */
const FENCE = 1.5;
/** Sums of the same numbers in another order must not differ in colour. */
const TOLERANCE = 1e-9;

/** @type {Record<Quantity, (sorted: number[]) => Scale>} */
const SCALES = { gradient: gradientScale, memory: memoryScale, time: timeScale };

/**
 * @param {string} by
 * @returns {by is Quantity}
 */
export const isQuantity = (by) => Object.hasOwn(SCALES, by);

/**
 * A scale for figures; null if none is above zero.
 *
 * @param {Quantity} quantity
 * @param {number[]} values
 * @returns {Scale|null}
 */
export function scaleFor(quantity, values) {
  const positive = values.filter((value) => value > 0).sort((one, other) => one - other);
  return positive.length ? SCALES[quantity](positive) : null;
}

/**
 * Where a figure lies on a scale, from 0 to 1; figures beyond an end lie there.
 *
 * @param {Scale} scale
 * @param {number} value
 */
function partOf({ low, high, isLog }, value) {
  const part = isLog ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.min(1, Math.max(0, part));
}

/**
 * @param {Scale} scale
 * @param {number} value
 * @param {number} [steps]
 */
export const stepOf = (scale, value, steps = STEPS) => Math.min(steps - 1, Math.floor(partOf(scale, value) * steps + TOLERANCE));

/** @param {number[]} sorted */
function withoutOutliers(sorted) {
  const logs = sorted.map(Math.log10);
  const [first, third] = [logs[Math.floor(logs.length / 4)], logs[Math.floor((3 * logs.length) / 4)]];
  const reach = FENCE * Math.max(third - first, 1);
  const usual = sorted.filter((_, at) => logs[at] >= first - reach && logs[at] <= third + reach);
  return { least: usual[0], most: usual[usual.length - 1] };
}

/**
 * Whole decades.
 *
 * @param {number[]} sorted
 * @returns {Scale}
 */
function gradientScale(sorted) {
  const { least, most } = withoutOutliers(sorted);
  const high = Math.ceil(Math.log10(most) - TOLERANCE);
  const low = Math.max(Math.min(Math.floor(Math.log10(least) + TOLERANCE), high - MIN_DECADES), high - MAX_DECADES);
  return withWords({ low: 10 ** low, high: 10 ** high, isLog: true }, sorted, power);
}

/** @param {number} value */
const power = (value) => (Math.abs(Math.log10(value)) <= 3.5 ? String(Number(value.toPrecision(1))) : `1e${Math.round(Math.log10(value))}`);

/**
 * The largest figure counts, however far it is from all others: it is what one looks for.
 *
 * @param {number[]} sorted
 * @returns {Scale}
 */
function memoryScale(sorted) {
  const most = sorted[sorted.length - 1];
  return withWords({ low: Math.min(withoutOutliers(sorted).least, most / MIN_FACTOR_OF_BYTES), high: most, isLog: true }, sorted, bytes);
}

/**
 * Linear, from zero: an item with half of the time looks half as hot.
 *
 * @param {number[]} sorted
 * @returns {Scale}
 */
function timeScale(sorted) {
  const most = sorted[sorted.length - 1];
  const usual = sorted[Math.ceil(USUAL * sorted.length) - 1];
  return withWords({ low: 0, high: most > 2 * usual ? usual : most, isLog: false }, sorted, (seconds) => (seconds ? duration(seconds) : "0"));
}

/**
 * @param {Omit<Scale, "words">} scale
 * @param {number[]} sorted
 * @param {(value: number) => string} inWords
 * @returns {Scale}
 */
function withWords(scale, sorted, inWords) {
  const from = `${sorted[0] < scale.low / 1.001 ? "≤ " : ""}${inWords(scale.low)}`;
  const to = `${sorted[sorted.length - 1] > scale.high * 1.001 ? "≥ " : ""}${inWords(scale.high)}`;
  return { ...scale, words: `${from} … ${to}${scale.isLog ? ", log scale" : ""}` };
}
