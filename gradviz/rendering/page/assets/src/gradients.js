/** Gradients that enter an item and leave it, edge by edge: in words, and as histograms on one scale. */
import { h } from "./dom.js";
import { figure, itemLink, section } from "./parts.js";

/** @returns {HTMLElement[]} nothing where no gradient was measured */
export function gradientParts(model, details, go) {
  const { entering = [], arrived = [], leaving = [], norms = [], has_more_edges: hasMore = false } = details;
  const scale = scaleOf([...entering, ...arrived, ...leaving]);
  const rows = (way, gradients) => byItem(model, gradients.filter(isTold)).map(([number, [first, ...others]]) =>
    gradientRow([h("span", { class: "quiet" }, `${way} `), nameOf(model, number, go), alike(others.length, hasMore)], first, scale));
  // A single gradient arrives as it was sent, if no hook changed it.
  const isSameTwice = entering.length === 1 && arrived.length === 1 && (!isTold(entering[0]) || isSame(entering[0], arrived[0]));
  const into = isSameTwice
    ? rows("from", [{ ...arrived[0], node: entering[0].node }])
    : [...rows("from", entering), ...arrived.map((each) => gradientRow(h("b", {}, sumWords(each, entering.length)), each, scale))];
  const out = rows("to", leaving);
  return [
    into.length ? section("gradient in", [...ofTheFirst(norms), ...into]) : null,
    out.length ? section("gradient out", [...ofTheFirst(norms), ...out]) : null,
    alongRepetitions(norms),
  ].filter(Boolean);
}

/** Of what stands for several repetitions, edge by edge only the first is told. */
export const ofTheFirst = (norms) => (norms.length ? [h("p", { class: "quiet" }, "of the first repetition:")] : []);

const isTold = (gradient) => Boolean(gradient.facts?.length);
const isSame = (one, other) => String(one.facts) === String(other.facts) && String(one.histogram) === String(other.histogram);

const sumWords = ({ what }, edges) => [edges > 1 ? "sum" : "arrives", what].filter(Boolean).join(" ");

/** @returns {[number|undefined, object[]][]} by the item at the other end, which may stand for several */
function byItem(model, gradients) {
  const groups = new Map();
  for (const gradient of gradients) {
    const number = model.itemOfNode(gradient.node);
    groups.set(number, [...(groups.get(number) ?? []), gradient]);
  }
  return [...groups];
}

const nameOf = (model, number, go) => (number === undefined ? "something that is not drawn" : itemLink(model, number, go));

/** Of several between the same two items the first is shown. */
const alike = (others, areMore) => (others ? h("span", { class: "quiet" }, `, the first of ${others + 1}${areMore ? " or more" : ""}`) : null);

function gradientRow(words, gradient, scale) {
  const { shape, facts, numbers, histogram } = gradient;
  return h("div", { class: "gradient" },
    h("p", {}, words, shape ? h("span", { class: "quiet" }, ` ${shape}`) : null),
    h("p", { class: "quiet" }, facts.join(" · ")),
    numbers ? h("p", { class: "numbers" }, numbers) : null,
    !numbers && histogram?.length && scale ? histogramChart(gradient, scale) : null);
}

/** The powers of ten in which elements of any of several gradients lie; null for none. */
function scaleOf(gradients) {
  const shown = gradients.filter(({ histogram }) => histogram?.length);
  if (!shown.length) return null;
  const first = Math.min(...shown.map(({ first_decade: from = 0 }) => from));
  const end = Math.max(...shown.map(({ first_decade: from = 0, histogram }) => from + histogram.length));
  return { first, end };
}

function histogramChart({ histogram, first_decade: from = 0 }, { first, end }) {
  const whole = histogram.reduce((sum, count) => sum + count, 0);
  const most = Math.max(...histogram);
  const bars = [];
  for (let decade = first; decade < end; decade += 1) {
    const count = histogram[decade - from] ?? 0;
    const part = `${figure((100 * count) / whole)} % between ${power(decade)} and ${power(decade + 1)}`;
    bars.push(bar(count / most, count > 0, part));
  }
  const largest = from + histogram.indexOf(most);
  const label = `sizes of elements from ${power(from)} to ${power(from + histogram.length)}, most of them between ${power(largest)} and ${power(largest + 1)}`;
  return chart(bars, label, [power(first), power(end)]);
}

const power = (decade) => `1e${decade}`;

/** Bars of what arrived at each repetition, on a logarithmic scale. */
function alongRepetitions(norms) {
  const known = norms.filter((norm) => norm > 0);
  if (known.length < 2) return null;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const height = (norm) => (most === least ? 1 : 0.12 + (0.88 * Math.log(norm / least)) / Math.log(most / least));
  const bars = norms.map((norm, at) =>
    bar(norm > 0 ? height(norm) : 0, norm > 0, `${at + 1} of ${norms.length}: ${norm === null ? "not measured" : figure(norm)}`));
  const label = `gradient norms from ${figure(least)} to ${figure(most)}`;
  return section("gradient norm along the repetitions", [
    h("p", { class: "quiet" }, `from ${figure(least)} to ${figure(most)}, on a logarithmic scale`),
    chart(bars, label, ["first", "last"]),
  ]);
}

function bar(part, isThere, title) {
  const element = h("span", { title }, h("i", {}));
  // A few must not look like none.
  element.firstChild.style.height = isThere ? `${Math.max(2, Math.round(30 * part))}px` : "0";
  return element;
}

/** The words below are no text of the page: whoever copies figures has no use for them. */
function chart(bars, label, [from, to]) {
  return h("div", { class: "chart", role: "img", "aria-label": label },
    h("div", { class: "bars" }, bars), h("div", { class: "ends" }, h("span", { "data-words": from }), h("span", { "data-words": to })));
}
