/**
 * Graphs for tests of the page's script, made of a few words.
 *
 * @import { Box, GraphDocument, Item, PlacedItem, Wire } from "../../gradviz/rendering/page/assets/src/document/types.js"
 */
import { Model } from "../../gradviz/rendering/page/assets/src/graph/model.js";

/**
 * @param {Partial<Item>} fields
 * @returns {Item}
 */
export const item = (fields) => ({ role: "operation", width: 100, height: 40, shape: 0, title: "Op", ...fields });

/**
 * A closed column of items, 60 from one to the next, in which data runs from each to the next.
 *
 * @param {number|null} number of the box as an item
 * @param {number[]} held
 * @param {Partial<Box>} [more]
 * @returns {Box}
 */
export function column(number, held, more = {}) {
  return {
    width: 140, height: 60 * held.length + 20, item: number,
    clusters: held.map((each, at) => cluster(each, 20 + 60 * at)),
    wires: held.slice(1).map((each, at) => wire(held[at], each, [70, 60 + 60 * at, 70, 80 + 60 * at])),
    entries: {}, exits: {}, header: number === null ? null : { text: "title", style: "t", x: 0, y: 20 }, header_width: 40, chip: null,
    stands_for: {}, ...more,
  };
}

/**
 * @param {number} number
 * @param {number} y
 */
const cluster = (number, y) => ({ x: 20, y, left: 0, right: 100, height: 40, items: [placed(number)] });

/**
 * @param {number} number
 * @returns {PlacedItem}
 */
const placed = (number) => ({ item: number, x: 0, y: 0, route: [] });

/**
 * @param {number} source
 * @param {number|null} target
 * @param {number[]} route
 * @param {Partial<Wire>} [more]
 * @returns {Wire}
 */
export const wire = (source, target, route, more = {}) => ({ source, target, route, ...more });

/**
 * @param {Item[]} items
 * @param {Box[]} boxes
 * @param {Partial<GraphDocument>} [more]
 * @returns {GraphDocument}
 */
export const documentOf = (items, boxes, more = {}) => ({
  name: "train.py", facts: "", error: "", notes: [], shapes: [{ front: "M0 0", inner: "", behind: [] }], roles: {}, items, boxes, opened: [],
  legends: {}, sources: {}, costs: [], parameters: [], memory: null, findings: [], replay: null, arrows: "data", color_by: "none",
  theme: "auto", calls: [], changes: [], index: 0, difference: null, ...more,
});

/** By what they are called in `nestedModel`. */
export const NUMBERS = { encoder: 0, attention: 1, softmax: 2, dropout: 3, head: 4, linear: 5, loss: 6, weight: 7 };

/**
 * A model with a box in a box: encoder (encoder.attention (softmax, dropout)), head (linear), the loss, and a weight that is
 * drawn beside the linear operation.
 *
 * @param {Partial<GraphDocument>} [more]
 */
export function nestedModel(more = {}) {
  const { encoder, attention, softmax, dropout, head, linear, loss } = NUMBERS;
  const items = [
    item({ role: "box", title: "encoder", path: "encoder", names: ["encoder"] }),
    item({ role: "box", title: "attention", path: "encoder.attention", names: ["encoder.attention"], parent: encoder }),
    item({ title: "Softmax", nodes: [11], parent: attention, numbers: { memory: 2e6 }, shape_words: "[8, 8]", line: "net.py:7" }),
    item({ title: "Dropout", nodes: [12], parent: attention, tints: { gradient: ["broken"] }, finding: "error" }),
    item({ role: "box", title: "head", path: "head", names: ["head"] }),
    item({ title: "Linear", subtitle: "addmm", nodes: [13], parent: head, numbers: { gradient: 0, time: 2e-3 } }),
    item({ role: "root", title: "loss", nodes: [14] }),
    item({ role: "parameter", title: "head.weight", is_leaf: true, nodes: [15], parent: head }),
  ];
  const boxes = [
    column(null, [encoder, head, loss], {
      wires: [wire(encoder, head, [70, 60, 70, 80], { ports: [attention] }), wire(head, loss, [70, 120, 70, 140], { ports: [linear] })],
    }),
    column(encoder, [attention], {
      exits: { [attention]: 70 }, wires: [wire(attention, null, [70, 60, 70, 80], { ports: [dropout] })],
    }),
    column(attention, [softmax, dropout], {
      exits: { [dropout]: 70 },
      wires: [wire(softmax, dropout, [70, 60, 70, 80]), wire(dropout, null, [70, 120, 70, 140])],
    }),
    column(head, [linear], {
      entries: { [attention]: 70 }, exits: { [linear]: 70 },
      wires: [wire(attention, linear, [70, 0, 70, 20], { enters: true }), wire(linear, null, [70, 60, 70, 80])],
    }),
  ];
  return new Model(documentOf(items, boxes, { roles: {}, ...more }));
}

/** By what they are called in `repeatedModel`. */
export const REPEATED = { blocks: 0, first: 1, each: 2, block0: 3, block1: 4, relu0: 5, relu1: 6 };

/** Two blocks alike: one box that shows the first of them, and another that shows each. */
export function repeatedModel() {
  const { blocks, first, each, block0, block1, relu0, relu1 } = REPEATED;
  const items = [
    item({ role: "box", title: "h.0", path: "h.0", repeat: 2 }),
    item({ title: "Relu", nodes: [21], parent: blocks, repeat: 2 }),
    item({ role: "box", title: "h", path: "h.0", each_of: blocks }),
    item({ role: "box", title: "h.0", path: "h.0", parent: each }),
    item({ role: "box", title: "h.1", path: "h.1", parent: each }),
    item({ title: "Relu", nodes: [21], parent: block0 }),
    item({ title: "Relu", nodes: [22], parent: block1 }),
  ];
  const boxes = [column(null, [blocks]), column(blocks, [first]), column(each, [block0, block1]), column(block0, [relu0]), column(block1, [relu1])];
  return new Model(documentOf(items, boxes));
}
