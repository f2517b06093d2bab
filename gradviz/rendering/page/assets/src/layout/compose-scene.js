/**
 * Puts boxes together: where everything is, for any combination of open and closed boxes.
 *
 * Each box was laid out once with all that it holds closed. Where one of these is open, its neighbours keep their order
 * and move apart (`AxisStretcher`), and wires keep their lanes and are joined to where data crosses its border.
 *
 * @import { Model } from "../graph/model.js"
 * @import { Box, Cluster, TitledBox, Wire } from "../document/types.js"
 * @import { Point, Rect, Scene, SceneLine } from "./types.js"
 *
 * @typedef {"entries"|"exits"} Crossing through the upper border of a box, or through the lower one
 * @typedef {{box: TitledBox, inside: Inside}} OpenBox
 * @typedef {Rect & {open: OpenBox|null, base: Point}} Child what lies in a box; `base` is where a closed one was laid out
 * @typedef {Point & {key: string, port?: number}} End of a line; at the border of an open box, with what goes through it
 * @typedef {{x: number, fromLeft: number}} Lane of a wire, outside of a box and from the left end of the box
 */
import { AxisStretcher } from "./axis-stretcher.js";
import { joined, pointsOf } from "./wire-routes.js";

/**
 * @param {Model} model
 * @param {Set<number>} opened
 * @returns {Scene}
 */
export function compose(model, opened) {
  const outermost = measure(model, opened, model.outermost);
  /** @type {Scene} */
  const scene = { items: new Map(), open: new Map(), lines: [], x: 0, y: 0, width: outermost.width, height: outermost.height };
  place(outermost, { x: 0, y: 0 }, 0, scene);
  return model.isSideways ? exchanged(scene) : scene;
}

/**
 * The size of an item along the axes of the layout: boxes for pictures from left to right have x and y exchanged.
 *
 * @param {Model} model
 * @param {number} number
 */
function sizeOf(model, number) {
  const { width, height } = model.items[number];
  return model.isSideways ? { width: height, height: width } : { width, height };
}

/**
 * The same scene from left to right; there wires run below titles, so these begin at the left.
 *
 * @param {Scene} scene
 * @returns {Scene}
 */
function exchanged({ items, open, lines, width, height }) {
  /**
   * @template {Rect} R
   * @param {R} rect
   * @returns {R}
   */
  const turned = (rect) => ({ ...rect, x: rect.y, y: rect.x, width: rect.height, height: rect.width });
  return {
    items: new Map([...items].map(([number, rect]) => [number, turned(rect)])),
    open: new Map([...open].map(([number, rect]) => [number, { ...turned(rect), titleFrom: SIDE }])),
    lines: lines.map((line) => ({ ...line, points: line.points.map(({ x, y }) => ({ x: y, y: x })) })),
    x: 0, y: 0, width: height, height: width,
  };
}

/**
 * Where an item is shown, open or closed; null where it is not.
 *
 * @param {Scene} scene
 * @param {number} number
 */
export function rectOf(scene, number) {
  return scene.items.get(number) ?? scene.open.get(number) ?? null;
}

/**
 * Moves everything.
 *
 * @param {Scene} scene
 * @param {number} x
 * @param {number} y
 */
export function shift(scene, x, y) {
  for (const rect of [...scene.items.values(), ...scene.open.values(), ...scene.lines.flatMap((line) => line.points)]) {
    rect.x += x;
    rect.y += y;
  }
  scene.x += x;
  scene.y += y;
}

/** The inside of an open box, with positions from its corner. */
class Inside {
  /** @param {Box} box */
  constructor(box) {
    this.box = box;
    this.across = new AxisStretcher();
    this.down = new AxisStretcher();
    /** @type {Map<number, Child>} */
    this.children = new Map();
    /** @type {SceneLine[]} */
    this.wires = [];
  }

  get width() {
    return this.box.width + this.across.total;
  }

  get height() {
    return this.box.height + this.down.total;
  }

  /**
   * @param {Crossing} kind
   * @param {number|string} port
   */
  crossing(kind, port) {
    return this.across.map(this.box[kind][port]);
  }

  /**
   * Where what is outside knows as `port` crosses the border: at several positions, where each of several alike is shown.
   *
   * @param {Crossing} kind
   * @param {number} port
   */
  crossings(kind, port) {
    const { stands_for: others } = this.box;
    const own = Object.keys(others).filter((other) => kind === "exits" && others[other].includes(port));
    return own.length || this.box[kind][port] === undefined ? own : [String(port)];
  }

  /**
   * @param {Point} point
   * @returns {Point}
   */
  point({ x, y }) {
    return { x: this.across.map(x), y: this.down.map(y) };
  }
}

/**
 * @param {Model} model
 * @param {Set<number>} opened
 * @param {Box} box
 * @returns {Inside}
 */
function measure(model, opened, box) {
  const inside = new Inside(box);
  /** @type {Map<Cluster, {open: OpenBox, lane: Lane}>} */
  const openHere = new Map();
  for (const cluster of box.clusters) {
    const open = model.openBox(mainOf(cluster), opened);
    if (open) openHere.set(cluster, makeRoom(inside, cluster, { box: open, inside: measure(model, opened, open) }));
  }
  inside.across.settle();
  inside.down.settle();
  for (const cluster of box.clusters) {
    const found = openHere.get(cluster);
    if (found) placeOpen(inside, cluster, found);
    else placeClosed(model, inside, cluster);
  }
  inside.wires = box.wires.flatMap((wire, number) => linesOf(model, inside, wire, number));
  leaveBehind(model, inside);
  return inside;
}

/**
 * The item beside which the others of a cluster are drawn.
 *
 * @param {Cluster} cluster
 */
const mainOf = (cluster) => cluster.items[0].item;

/**
 * Removes what was there for boxes only that are open now, and have leaves of their own.
 *
 * @param {Model} model
 * @param {Inside} inside
 */
function leaveBehind(model, inside) {
  /** @param {number} number */
  const serves = (number) => model.items[number].is_leaf || model.items[number].role === "cut";
  const needed = new Set(inside.box.wires.filter((wire) => !wire.enters && serves(wire.source)).map((wire) => wire.source));
  for (let left = true; left; ) {
    const used = new Set(inside.wires.map((line) => line.source));
    const idle = [...needed].filter((number) => inside.children.has(number) && !used.has(number));
    left = idle.length > 0;
    for (const number of idle) inside.children.delete(number);
    inside.wires = inside.wires.filter((line) => line.target === null || inside.children.has(line.target));
  }
}

/**
 * Asks for the room that an open box needs; tells the lane of its main wire, which stays straight.
 *
 * @param {Inside} inside
 * @param {Cluster} cluster
 * @param {OpenBox} open
 */
function makeRoom(inside, cluster, open) {
  const child = open.inside;
  const lane = laneOf(inside.box, cluster, child);
  const left = cluster.x + cluster.left;
  const right = cluster.x + cluster.right;
  inside.across.demandBefore(left, lane.x, lane.fromLeft - (lane.x - left));
  inside.across.demandAfter(lane.x, right, child.width - lane.fromLeft - (right - lane.x));
  inside.down.demandAfter(cluster.y, cluster.y + cluster.height, child.height - cluster.height);
  return { open, lane };
}

/**
 * Where the first wire through the border of a box runs.
 *
 * @param {Box} box
 * @param {Cluster} cluster
 * @param {Inside} child
 * @returns {Lane}
 */
function laneOf(box, cluster, child) {
  const main = mainOf(cluster);
  /** @param {Wire} wire */
  const arrives = (wire) => wire.target === main;
  /** @param {Wire} wire */
  const leaves = (wire) => !wire.enters && wire.source === main;
  for (const { kind, touches, end } of /** @type {const} */ ([
    { kind: "entries", touches: arrives, end: -1 },
    { kind: "exits", touches: leaves, end: 0 },
  ])) {
    for (const own of Object.keys(child.box[kind])) {
      const wire = box.wires.find((each) => touches(each) && (each.ports ?? []).some((port) => child.crossings(kind, port).includes(own)));
      const point = wire && pointsOf(wire.route).at(end);
      if (point) return { x: point.x, fromLeft: child.crossing(kind, own) };
    }
  }
  return { x: cluster.x + (cluster.left + cluster.right) / 2, fromLeft: child.width / 2 };
}

/**
 * @param {Inside} inside
 * @param {Cluster} cluster
 * @param {{open: OpenBox, lane: Lane}} found
 */
function placeOpen(inside, cluster, { open, lane }) {
  const { width, height } = open.inside;
  const corner = { x: inside.across.map(lane.x) - lane.fromLeft, y: inside.down.map(cluster.y) };
  inside.children.set(mainOf(cluster), { ...corner, width, height, open, base: corner });
}

/**
 * @param {Model} model
 * @param {Inside} inside
 * @param {Cluster} cluster
 */
function placeClosed(model, inside, cluster) {
  const [main] = cluster.items;
  const middle = { x: cluster.x + main.x + sizeOf(model, main.item).width / 2, y: cluster.y + cluster.height / 2 };
  const now = inside.point(middle);
  for (const { item, x, y } of cluster.items) {
    const { width, height } = sizeOf(model, item);
    inside.children.set(item, {
      x: cluster.x + x + now.x - middle.x,
      y: cluster.y + y + now.y - middle.y,
      width, height, open: null,
      base: { x: cluster.x + x, y: cluster.y + y },
    });
  }
}

/**
 * The lines that are drawn for one wire: several where several things cross the border of an open box.
 *
 * @param {Model} model
 * @param {Inside} inside
 * @param {Wire} wire
 * @param {number} number
 * @returns {SceneLine[]}
 */
function linesOf(model, inside, wire, number) {
  const points = pointsOf(wire.route);
  const target = wire.target === null ? null : inside.children.get(wire.target);
  if (target?.open && model.items[wire.source].is_leaf) return []; // the open box has a leaf of its own
  const starts = startsOf(inside, wire, points[0]);
  const ends = endsOf(inside, wire, points[points.length - 1]);
  const lane = points.map((point) => inside.point(point));
  return starts.flatMap((start) =>
    ends.filter((end) => start.port === undefined || end.port === undefined || start.port === end.port).map((end) => ({
      key: `${inside.box.item}/${number}/${start.key}/${end.key}`,
      from: start.key, to: end.key,
      points: joined(lane, { x: start.x, y: start.y }, { x: end.x, y: end.y }),
      flow: wire.flow, isQuiet: wire.is_quiet, source: wire.source, target: wire.target,
    })));
}

/**
 * @param {Inside} inside
 * @param {Wire} wire
 * @param {Point} was where it begins while everything is closed
 * @returns {End[]}
 */
function startsOf(inside, wire, was) {
  if (wire.enters) return [{ x: inside.crossing("entries", wire.source), y: 0, key: `in:${inside.box.item}:${wire.source}` }];
  return touchesOf(inside, wire.source, wire, was, "exits");
}

/**
 * @param {Inside} inside
 * @param {Wire} wire
 * @param {Point} was where it ends while everything is closed
 * @returns {End[]}
 */
function endsOf(inside, wire, was) {
  if (wire.target === null) return [{ x: inside.crossing("exits", wire.source), y: inside.height, key: `out:${inside.box.item}:${wire.source}` }];
  return touchesOf(inside, wire.target, wire, was, "entries");
}

/**
 * Where a wire touches an item, or the border of an open box, which it may cross at several positions.
 *
 * @param {Inside} around
 * @param {number} number
 * @param {Wire} wire
 * @param {Point} was
 * @param {Crossing} kind
 * @returns {End[]}
 */
function touchesOf(around, number, wire, was, kind) {
  const child = around.children.get(number);
  if (!child) throw new Error(`a wire ends at ${number}, which is not beside it`);
  if (!child.open) return [{ x: was.x + child.x - child.base.x, y: was.y + child.y - child.base.y, key: `item:${number}` }];
  const { inside } = child.open;
  const border = kind === "exits" ? { way: "out", y: child.y + child.height } : { way: "in", y: child.y };
  return (wire.ports ?? []).flatMap((port) => inside.crossings(kind, port).map((own) => (
    { x: child.x + inside.crossing(kind, own), y: border.y, port, key: `${border.way}:${inside.box.item}:${own}` })));
}

/**
 * Adds everything to the scene, from the corner of the box in it.
 *
 * @param {Inside} inside
 * @param {Point} corner
 * @param {number} depth
 * @param {Scene} scene
 */
function place(inside, corner, depth, scene) {
  for (const [number, child] of inside.children) {
    const rect = { x: corner.x + child.x, y: corner.y + child.y, width: child.width, height: child.height };
    if (child.open) {
      const { box, inside: own } = child.open;
      scene.open.set(number, { ...rect, depth, box, titleFrom: titleStart(own, box.header_width) });
      place(own, rect, depth + 1, scene);
    } else scene.items.set(number, rect);
  }
  for (const line of inside.wires) {
    const points = line.points.map(({ x, y }) => ({ x: corner.x + x, y: corner.y + y }));
    scene.lines.push({ ...line, points });
  }
  for (const cluster of inside.box.clusters) addWaysOfLeaves(inside, cluster, corner, scene);
}

/**
 * @param {Inside} inside
 * @param {Cluster} cluster
 * @param {Point} corner
 * @param {Scene} scene
 */
function addWaysOfLeaves(inside, cluster, corner, scene) {
  const main = mainOf(cluster);
  if (inside.children.get(main)?.open !== null) return;
  for (const { item: leaf, route, flow } of cluster.items) {
    const child = inside.children.get(leaf);
    if (!route.length || !child) continue;
    const from = { x: corner.x + child.x - child.base.x + cluster.x, y: corner.y + child.y - child.base.y + cluster.y };
    const points = pointsOf(route).map(({ x, y }) => ({ x: x + from.x, y: y + from.y }));
    scene.lines.push({
      key: `${inside.box.item}/leaf/${leaf}`, from: `item:${leaf}`, to: `item:${main}`,
      points, flow, source: leaf, target: main,
    });
  }
}

const SIDE = 13;
const CLEARANCE = 7;

/**
 * Where the title of an open box begins: at its left, or further right where a wire would run through it.
 *
 * @param {Inside} inside
 * @param {number} width
 */
function titleStart(inside, width) {
  const crossings = Object.keys(inside.box.entries).map((port) => inside.crossing("entries", port));
  let start = SIDE;
  for (const x of crossings.sort((one, other) => one - other)) {
    if (x - CLEARANCE < start + width) start = Math.max(start, x + CLEARANCE);
  }
  return start + width <= inside.width - SIDE / 2 ? start : SIDE;
}
