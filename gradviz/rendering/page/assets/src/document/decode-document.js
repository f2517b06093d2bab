/**
 * The only place that knows how the file packs things: as lists in which a position tells what it is about, and as
 * numbers of what many things share. Everything else has objects with names (`types.d.ts`).
 *
 * @import { PackedPagePosition, PageCluster, PageDetails, PageDocument, PageItem, PageLegend, PageMemory, PageReplay, PageWire } from "./wire-types.js"
 * @import { Cluster, Details, GraphDocument, Item, Legend, PageArrival, PageCell, PageFlow, PageLine, PageSides, PlacedItem, Role, Shape, Step, Tints, Wire } from "./types.js"
 */
import { ARRIVAL_FIELDS, CELL_FIELDS, POSITION_FIELDS, SIDES_FIELDS } from "./record-fields.js";

/**
 * The document by names. What it holds is changed, not copied: of a large graph there should not be two.
 *
 * @param {PageDocument} packed
 * @returns {GraphDocument}
 */
export function decodeDocument({ shapes, roles, items, lines, tints, boxes, flows, legends, ...others }) {
  return {
    ...others,
    shapes: shapes.map(shapeOf),
    roles: mapped(roles, roleOf),
    items: items.map((item) => itemOf(item, lines, tints)),
    boxes: boxes.map((box) => Object.assign(box, {
      wires: box.wires.map((wire) => wireOf(wire, flows)),
      clusters: box.clusters.map((cluster) => clusterOf(cluster, flows)),
    })),
    legends: mapped(legends, legendOf),
  };
}

/**
 * The details of some items by names.
 *
 * @param {PageDetails[]} packed
 * @returns {Details[]}
 */
export function decodeDetails(packed) {
  return packed.map((details) => Object.assign(details, {
    callers: details.callers?.map(([file, line]) => ({ file, line })),
    sides: details.sides?.map((record) => /** @type {PageSides} */ (named(SIDES_FIELDS, record))),
  }));
}

/**
 * The steps of the backward pass by names: decoded once it is played.
 *
 * @param {PageReplay} replay
 * @returns {Step[]}
 */
export function decodeSteps({ steps }) {
  return steps.map((step) => ({
    ...step, arrivals: step.arrivals.map((record) => /** @type {PageArrival} */ (named(ARRIVAL_FIELDS, record))),
  }));
}

/**
 * What is kept for backward, by module or by line: decoded once it is shown.
 *
 * @param {PageMemory} memory
 * @param {"by_module"|"by_line"} by
 * @returns {PageCell[]}
 */
export function decodeCells(memory, by) {
  return memory[by].map((record) => /** @type {PageCell} */ (named(CELL_FIELDS, record)));
}

/**
 * @param {readonly string[]} fields in the order in which the file has them
 * @param {readonly unknown[]} record
 * @returns {object}
 */
function named(fields, record) {
  /** @type {Record<string, unknown>} */
  const found = {};
  for (let at = 0; at < fields.length; at++) found[fields[at]] = record[at];
  return found;
}

/**
 * @template T, U
 * @param {Record<string, T>} values
 * @param {(value: T) => U} change
 * @returns {Record<string, U>}
 */
const mapped = (values, change) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, change(value)]));

/**
 * @param {string[]} paths
 * @returns {Shape}
 */
const shapeOf = ([front, inner, ...behind]) => ({ front, inner, behind });

/**
 * @param {string[]} told
 * @returns {Role}
 */
const roleOf = ([words, outline, inner]) => ({ words, outline, inner });

/**
 * @param {PageItem} item
 * @param {PageLine[]} lines
 * @param {Tints[]} tints
 * @returns {Item}
 */
function itemOf(item, lines, tints) {
  return Object.assign(item, {
    lines: item.lines?.map((number) => lines[number]),
    tints: item.tints === undefined ? undefined : tints[item.tints],
    source: item.source && { file: item.source[0], line: item.source[1] },
  });
}

/**
 * @param {PageWire} wire
 * @param {PageFlow[]} flows
 * @returns {Wire}
 */
const wireOf = (wire, flows) => Object.assign(wire, { flow: wire.flow === undefined ? undefined : flows[wire.flow] });

/**
 * @param {PageCluster} cluster
 * @param {PageFlow[]} flows
 * @returns {Cluster}
 */
const clusterOf = ({ positions, ...others }, flows) => ({ ...others, items: positions.map((record) => placedItemOf(record, flows)) });

/**
 * @param {PackedPagePosition} record
 * @param {PageFlow[]} flows
 * @returns {PlacedItem}
 */
function placedItemOf(record, flows) {
  const { flow, ...placed } = /** @type {import("./wire-types.js").PagePosition} */ (named(POSITION_FIELDS, record));
  return { ...placed, flow: flow === null ? undefined : flows[flow] };
}

/**
 * @param {PageLegend} legend
 * @returns {Legend}
 */
function legendOf({ tints, ends, ...others }) {
  return {
    ...others,
    tints: tints.map(([tint, words]) => ({ tint, words })),
    ends: ends && { min: ends[0], max: ends[1] },
  };
}
