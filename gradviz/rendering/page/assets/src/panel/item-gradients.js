/**
 * Gradients that enter an item and leave it, edge by edge: in words, and as histograms on one scale.
 *
 * @import { Details, PageGradient } from "../document/types.js"
 * @import { Model } from "../graph/model.js"
 * @import { Child } from "../shared/dom.js"
 * @import { Go } from "./sections.js"
 *
 * @typedef {{first: number, end: number}} Scale powers of ten, without the last
 */
import { h } from "../shared/dom.js";
import { figure } from "../shared/number-words.js";
import { groupBy } from "../shared/group-by.js";
import { itemLink, section } from "./sections.js";

/**
 * @param {Model} model
 * @param {Details} details
 * @param {Go} go
 * @returns {HTMLElement[]} nothing where no gradient was measured
 */
export function gradientParts(model, details, go) {
  const { entering = [], arrived = [], leaving = [], norms = [], has_more_edges: hasMore = false } = details;
  const scale = scaleOf([...entering, ...arrived, ...leaving]);
  /**
   * By the item at the other end, which may stand for several.
   *
   * @param {string} way
   * @param {PageGradient[]} gradients
   */
  const rows = (way, gradients) => [...groupBy(gradients.filter(isTold), ({ node }) => model.itemOfNode(node))].map(([number, [first, ...others]]) =>
    gradientRow([h("span", { class: "quiet" }, `${way} `), nameOf(model, number, go), alike(others.length, hasMore)], first, scale));
  // A single gradient arrives as it was sent, if no hook changed it.
  const isSameTwice = entering.length === 1 && arrived.length === 1 && (!isTold(entering[0]) || isSame(entering[0], arrived[0]));
  const into = isSameTwice
    ? rows("from", [{ ...arrived[0], node: entering[0].node }])
    : [...rows("from", entering), ...arrived.map((each) => gradientRow([h("b", {}, sumWords(each, entering.length))], each, scale))];
  const out = rows("to", leaving);
  return [
    into.length ? section("gradient in", [...ofTheFirst(norms), ...into]) : null,
    out.length ? section("gradient out", [...ofTheFirst(norms), ...out]) : null,
    alongRepetitions(norms),
  ].filter((part) => part !== null);
}

/**
 * Of what stands for several repetitions, edge by edge only the first is told.
 *
 * @param {(number|null)[]} norms
 */
export const ofTheFirst = (norms) => (norms.length ? [h("p", { class: "quiet" }, "of the first repetition:")] : []);

/** @param {PageGradient} gradient */
const isTold = (gradient) => Boolean(gradient.facts?.length);

/**
 * @param {PageGradient} one
 * @param {PageGradient} other
 */
const isSame = (one, other) => String(one.facts) === String(other.facts) && String(one.histogram) === String(other.histogram);

/**
 * @param {PageGradient} gradient
 * @param {number} edges
 */
const sumWords = ({ what }, edges) => [edges > 1 ? "sum" : "arrives", what].filter(Boolean).join(" ");

/**
 * @param {Model} model
 * @param {number|undefined} number
 * @param {Go} go
 */
const nameOf = (model, number, go) => (number === undefined ? "something that is not drawn" : itemLink(model, number, go));

/**
 * Of several between the same two items the first is shown.
 *
 * @param {number} others
 * @param {boolean} areMore
 */
const alike = (others, areMore) => (others ? h("span", { class: "quiet" }, `, the first of ${others + 1}${areMore ? " or more" : ""}`) : null);

/**
 * @param {Child[]} words
 * @param {PageGradient} gradient
 * @param {Scale|null} scale
 */
function gradientRow(words, gradient, scale) {
  const { shape, facts = [], numbers, histogram } = gradient;
  return h("div", { class: "gradient" },
    h("p", {}, words, shape ? h("span", { class: "quiet" }, ` ${shape}`) : null),
    h("p", { class: "quiet" }, facts.join(" · ")),
    numbers ? h("p", { class: "numbers" }, numbers) : null,
    !numbers && histogram?.length && scale ? histogramChart(histogram, gradient.first_decade ?? 0, scale) : null);
}

/**
 * The powers of ten in which elements of any of several gradients lie; null for none.
 *
 * @param {PageGradient[]} gradients
 * @returns {Scale|null}
 */
function scaleOf(gradients) {
  const shown = gradients.map(({ first_decade: from = 0, histogram = [] }) => ({ from, length: histogram.length })).filter(({ length }) => length);
  if (!shown.length) return null;
  return { first: Math.min(...shown.map(({ from }) => from)), end: Math.max(...shown.map(({ from, length }) => from + length)) };
}

/**
 * @param {number[]} histogram
 * @param {number} from the exponent of its first power of ten
 * @param {Scale} scale
 */
function histogramChart(histogram, from, { first, end }) {
  const whole = histogram.reduce((sum, count) => sum + count, 0);
  const max = Math.max(...histogram);
  const bars = [];
  for (let decade = first; decade < end; decade += 1) {
    const count = histogram[decade - from] ?? 0;
    const part = `${figure((100 * count) / whole)} % between ${power(decade)} and ${power(decade + 1)}`;
    bars.push(bar(count / max, count > 0, part));
  }
  const largest = from + histogram.indexOf(max);
  const label = `sizes of elements from ${power(from)} to ${power(from + histogram.length)}, most of them between ${power(largest)} and ${power(largest + 1)}`;
  return chart(bars, label, { from: power(first), to: power(end) });
}

/** @param {number} decade */
const power = (decade) => `1e${decade}`;

/**
 * Bars of what arrived at each repetition, on a logarithmic scale.
 *
 * @param {(number|null)[]} norms
 */
function alongRepetitions(norms) {
  const known = norms.flatMap((norm) => (norm !== null && norm > 0 ? [norm] : []));
  if (known.length < 2) return null;
  const [min, max] = [Math.min(...known), Math.max(...known)];
  /** @param {number} norm */
  const height = (norm) => (max === min ? 1 : 0.12 + (0.88 * Math.log(norm / min)) / Math.log(max / min));
  const bars = norms.map((norm, at) => {
    const isThere = norm !== null && norm > 0;
    return bar(isThere ? height(norm) : 0, isThere, `${at + 1} of ${norms.length}: ${norm === null ? "not measured" : figure(norm)}`);
  });
  const label = `gradient norms from ${figure(min)} to ${figure(max)}`;
  return section("gradient norm along the repetitions", [
    h("p", { class: "quiet" }, `from ${figure(min)} to ${figure(max)}, on a logarithmic scale`),
    chart(bars, label, { from: "first", to: "last" }),
  ]);
}

/**
 * @param {number} part of the whole height
 * @param {boolean} isThere
 * @param {string} title
 */
function bar(part, isThere, title) {
  const filled = h("i", {});
  // A few must not look like none.
  filled.style.height = isThere ? `${Math.max(2, Math.round(30 * part))}px` : "0";
  return h("span", { title }, filled);
}

/**
 * The words below are no text of the page: whoever copies figures has no use for them.
 *
 * @param {HTMLElement[]} bars
 * @param {string} label
 * @param {{from: string, to: string}} ends
 */
function chart(bars, label, { from, to }) {
  return h("div", { class: "chart", role: "img", "aria-label": label },
    h("div", { class: "bars" }, bars), h("div", { class: "ends" }, h("span", { "data-words": from }), h("span", { "data-words": to })));
}
