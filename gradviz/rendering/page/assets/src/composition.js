/**
 * Puts boxes together: where everything is, for any combination of open and closed boxes.
 *
 * Each box was laid out once with all that it holds closed. Where one of these is open, its neighbours keep their order
 * and move apart (`Stretch`), and wires keep their lanes and are joined to where data crosses its border.
 */
import { joined, pointsOf } from "./routes.js";
import { Stretch } from "./stretch.js";

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Rect
 * @typedef {{key: string, from: string, to: string, points: {x: number, y: number}[], flow: object|null, isQuiet: boolean|undefined,
 *   source: number, target: number|null}} Line
 * @typedef {{items: Map<number, Rect>, open: Map<number, Rect & {depth: number, box: object, titleFrom: number}>,
 *   lines: Line[], x: number, y: number, width: number, height: number}} Scene
 */

/**
 * @param {import("./model.js").Model} model
 * @param {Set<number>} opened
 * @returns {Scene}
 */
export function compose(model, opened) {
  const scene = { items: new Map(), open: new Map(), lines: [], x: 0, y: 0, width: 0, height: 0 };
  const outermost = measure(model, opened, model.outermost);
  scene.width = outermost.width;
  scene.height = outermost.height;
  place(model, outermost, { x: 0, y: 0 }, 0, scene);
  return scene;
}

/** Where an item is shown, open or closed; null where it is not. */
export function rectOf(scene, number) {
  return scene.items.get(number) ?? scene.open.get(number) ?? null;
}

/** Moves everything. */
export function shift(scene, x, y) {
  for (const rect of [...scene.items.values(), ...scene.open.values(), ...scene.lines.flatMap((line) => line.points)]) {
    rect.x += x;
    rect.y += y;
  }
  scene.x += x;
  scene.y += y;
}

/** The inside of an open box, with places from its corner. */
class Inside {
  constructor(box) {
    this.box = box;
    this.across = new Stretch();
    this.down = new Stretch();
    /** @type {Map<number, {x: number, y: number, width: number, height: number, inside: Inside|null}>} */
    this.children = new Map();
    this.wires = [];
  }

  get width() {
    return this.box.width + this.across.total;
  }

  get height() {
    return this.box.height + this.down.total;
  }

  crossing(kind, port) {
    return this.across.map(this.box[kind][port]);
  }

  /** Where what is outside knows as `port` crosses the border: at several places, where each of several alike is shown. */
  crossings(kind, port) {
    const { stands_for: others } = this.box;
    const own = Object.keys(others).filter((other) => kind === "exits" && others[other].includes(port));
    return own.length || this.box[kind][port] === undefined ? own : [String(port)];
  }

  point({ x, y }) {
    return { x: this.across.map(x), y: this.down.map(y) };
  }
}

function measure(model, opened, box) {
  const inside = new Inside(box);
  const openHere = new Map();
  for (const cluster of box.clusters) {
    const main = cluster.places[0][0];
    const open = model.openAs(main, opened);
    if (open === null) continue;
    const child = measure(model, opened, model.boxes.get(open));
    openHere.set(main, makeRoom(inside, cluster, child));
  }
  inside.across.settle();
  inside.down.settle();
  for (const cluster of box.clusters) placeCluster(model, inside, cluster, openHere.get(cluster.places[0][0]));
  inside.wires = box.wires.flatMap((wire, number) => linesOf(model, inside, wire, number));
  leaveBehind(model, inside);
  return inside;
}

/**
 * Removes what was there for boxes only that are open now, and have leaves of their own.
 */
function leaveBehind(model, inside) {
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

/** Asks for the room that an open box needs; tells the lane of its main wire, which stays straight. */
function makeRoom(inside, cluster, child) {
  const [main] = cluster.places[0];
  const lane = laneOf(inside.box, cluster, child, main);
  const left = cluster.x + cluster.left;
  const right = cluster.x + cluster.right;
  inside.across.demandBefore(left, lane.x, lane.from - (lane.x - left));
  inside.across.demandAfter(lane.x, right, child.width - lane.from - (right - lane.x));
  inside.down.demandAfter(cluster.y, cluster.y + cluster.height, child.height - cluster.height);
  return { child, lane };
}

/** Where the first wire through the border of a box runs, outside (`x`) and from the left end of the box (`from`). */
function laneOf(box, cluster, child, main) {
  for (const [kind, isIt, at] of [
    ["entries", (wire) => wire.target === main, -2],
    ["exits", (wire) => !wire.enters && wire.source === main, 0],
  ]) {
    for (const own of Object.keys(child.box[kind])) {
      const wire = box.wires.find((each) => isIt(each) && (each.ports ?? []).some((port) => child.crossings(kind, port).includes(own)));
      if (wire) return { x: wire.route.at(at), from: child.crossing(kind, own) };
    }
  }
  return { x: cluster.x + (cluster.left + cluster.right) / 2, from: child.width / 2 };
}

function placeCluster(model, inside, cluster, open) {
  if (open) {
    const { child, lane } = open;
    const [main] = cluster.places[0];
    const y = inside.down.map(cluster.y);
    const x = inside.across.map(lane.x) - lane.from;
    inside.children.set(main, { x, y, width: child.width, height: child.height, inside: child });
    return;
  }
  const [first, firstX] = cluster.places[0];
  const middle = { x: cluster.x + firstX + model.items[first].width / 2, y: cluster.y + cluster.height / 2 };
  const now = inside.point(middle);
  for (const [number, x, y] of cluster.places) {
    const { width, height } = model.items[number];
    inside.children.set(number, {
      x: cluster.x + x + now.x - middle.x,
      y: cluster.y + y + now.y - middle.y,
      width, height, inside: null,
      base: { x: cluster.x + x, y: cluster.y + y },
    });
  }
}

/** The lines that are drawn for one wire: several where several things cross the border of an open box. */
function linesOf(model, inside, wire, number) {
  const points = pointsOf(wire.route);
  const target = wire.target === null ? null : inside.children.get(wire.target);
  const source = wire.enters ? null : inside.children.get(wire.source);
  if (target?.inside && model.items[wire.source].is_leaf) return []; // the open box has a leaf of its own
  const starts = wire.enters
    ? [{ x: inside.crossing("entries", wire.source), y: 0, key: `in:${inside.box.item}:${wire.source}` }]
    : endsAt(source, wire, points[0], "exits");
  const ends = target === null
    ? [{ x: inside.crossing("exits", wire.source), y: inside.height, key: `out:${inside.box.item}:${wire.source}` }]
    : endsAt(target, wire, points.at(-1), "entries");
  const lane = points.map((point) => inside.point(point));
  const pairs = starts.flatMap((start) =>
    ends.filter((end) => start.port === undefined || end.port === undefined || start.port === end.port)
      .map((end) => [start, end]));
  return pairs.map(([start, end]) => ({
    key: `${inside.box.item}/${number}/${start.key}/${end.key}`,
    from: start.key, to: end.key,
    points: joined(lane, { x: start.x, y: start.y }, { x: end.x, y: end.y }),
    flow: wire.flow, isQuiet: wire.is_quiet, source: wire.source, target: wire.target,
  }));
}

/** Where a wire touches an item, or the border of an open box, which it may cross at several places. */
function endsAt(child, wire, was, kind) {
  const number = kind === "exits" ? wire.source : wire.target;
  if (!child.inside) {
    return [{ x: was.x + child.x - child.base.x, y: was.y + child.y - child.base.y, key: `item:${number}` }];
  }
  const way = kind === "exits" ? "out" : "in";
  const y = kind === "exits" ? child.y + child.height : child.y;
  const { inside } = child;
  return (wire.ports ?? []).flatMap((port) => inside.crossings(kind, port).map((own) => (
    { x: child.x + inside.crossing(kind, own), y, port, key: `${way}:${inside.box.item}:${own}` })));
}

/** Adds everything to the scene, from the corner of the box in it. */
function place(model, inside, corner, depth, scene) {
  for (const [number, child] of inside.children) {
    const rect = { x: corner.x + child.x, y: corner.y + child.y, width: child.width, height: child.height };
    if (child.inside) {
      scene.open.set(number, { ...rect, depth, box: child.inside.box, titleFrom: titleStart(child.inside) });
      place(model, child.inside, rect, depth + 1, scene);
    } else scene.items.set(number, rect);
  }
  for (const line of inside.wires) {
    const points = line.points.map(({ x, y }) => ({ x: corner.x + x, y: corner.y + y }));
    scene.lines.push({ ...line, points });
  }
  for (const cluster of inside.box.clusters) addWaysOfLeaves(inside, cluster, corner, scene);
}

function addWaysOfLeaves(inside, cluster, corner, scene) {
  const [main] = cluster.places[0];
  if (inside.children.get(main)?.inside !== null) return;
  for (const [number, , , route, flow] of cluster.places) {
    if (!route?.length) continue;
    const child = inside.children.get(number);
    if (!child) continue;
    const shift = { x: corner.x + child.x - child.base.x + cluster.x, y: corner.y + child.y - child.base.y + cluster.y };
    const points = pointsOf(route).map(({ x, y }) => ({ x: x + shift.x, y: y + shift.y }));
    scene.lines.push({
      key: `${inside.box.item}/leaf/${number}`, from: `item:${number}`, to: `item:${main}`,
      points, flow, source: number, target: main,
    });
  }
}

const SIDE = 13;
const CLEARANCE = 7;

/** Where the title of an open box begins: at its left, or further right where a wire would run through it. */
function titleStart(inside) {
  const width = inside.box.header_width;
  const crossings = Object.keys(inside.box.entries).map((port) => inside.crossing("entries", port));
  let start = SIDE;
  for (const x of crossings.sort((one, other) => one - other)) {
    if (x - CLEARANCE < start + width) start = Math.max(start, x + CLEARANCE);
  }
  return start + width <= inside.width - SIDE / 2 ? start : SIDE;
}
