/** The picture: keeps the elements of what is shown, and moves them where a new scene has them. */
import { Crowd } from "./crowd.js";
import { byId, s } from "./dom.js";
import { showLabels } from "./labels.js";
import { boundsOf, isWithin, touch, widened } from "./rects.js";
import { keepTitlesInSight } from "./titles.js";
import { itemElement, moveWire, openElements, sizeOpen, translate, wireElement } from "./shapes.js";

const DURATION = 220;
/** So many elements are moved step by step; more jump at once. */
const MOST_MOVED = 600;
/** Of a picture with more, only what is in sight has elements. */
const MOST_KEPT = 1200;
/** With more items in sight nothing has elements: all is painted; until so much fewer are in sight again. */
const MOST_IN_SIGHT = 400;
const FEWER = 0.8;
const PAINTED_HINT = "arrow keys go from one thing to the next and say which; zoom in or fold boxes to go through all with the tab key";
/** Windows around what is in sight, at each side, that have elements as well. */
const AROUND = 0.25;
/** Elements are left behind once they fill so many windows more than they were made for: nearing would move them all. */
const MOST_WINDOWS = 5;

export class Picture {
  #scene = null;
  #frame = 0;
  #elements = { back: new Map(), wires: new Map(), items: new Map() };

  #drawn = null;
  #covered = null;
  #isCrowd = false;

  /**
   * @param {import("./model.js").Model} model
   * @param {() => import("./composition.js").Rect & {scale: number}} seen what part of the scene is in sight
   * @param {() => void} onDrawn called when other things have come into sight
   */
  constructor(model, seen, onDrawn) {
    this.model = model;
    this.seen = seen;
    this.onDrawn = onDrawn;
    /** Words beside wires, and words over everything. */
    this.labels = s("g", { class: "y", "aria-hidden": "true" });
    this.words = s("g", { class: "play-words", "aria-hidden": "true" });
    this.layers = {};
    for (const name of ["back", "wires", "items"]) {
      this.layers[name] = s("g", { class: name === "wires" ? "l" : name });
      byId("scene").append(this.layers[name]);
    }
    this.crowd = new Crowd(model, this.layers, seen);
    byId("scene").append(this.labels, this.words);
    this.colour = "role";
  }

  get scene() {
    return this.#scene;
  }

  /** False where only what is in sight is drawn. */
  get isWhole() {
    return this.#covered === null;
  }

  /** True where everything is painted, and nothing has elements. */
  get isCrowd() {
    return this.#isCrowd;
  }

  /** The item in which something happened; null for none. */
  numberAt(event) {
    const element = event.target.closest("[data-item]");
    if (element) return Number(element.dataset.item);
    return this.#isCrowd && event.target === byId("picture") ? this.crowd.numberAt(this.#pointOf(event)) : null;
  }

  #pointOf({ clientX, clientY }) {
    const { x, y, scale } = this.seen();
    const { left, top } = byId("picture").getBoundingClientRect();
    return { x: x + (clientX - left) / scale, y: y + (clientY - top) / scale };
  }

  /**
   * Gives elements to what is in sight, and titles their own places, for who saves or prints.
   *
   * @returns {() => void} puts everything back
   */
  lendElements() {
    if (!this.#isCrowd) {
      this.#keepTitles({ ...this.#scene, scale: 1, y: this.#scene.y - this.#scene.height });
      return () => this.#keepTitles();
    }
    this.#turn(false);
    this.#drawAnew(this.#scene);
    this.onDrawn();
    return () => {
      this.#turn(true);
      this.#paint();
      this.onDrawn();
    };
  }

  /** The element of an item that is shown. */
  elementOf(number) {
    return this.#elements.items.get(number);
  }

  elementsOfLines() {
    return this.#elements.wires;
  }

  elementsOfItems() {
    return this.#elements.items;
  }

  /** Everything again, in other colours. */
  recolour(colour) {
    this.colour = colour;
    byId("stage").dataset.color = colour;
    if (this.#isCrowd) return this.#paint();
    for (const [number, element] of this.#elements.items) {
      if (!this.#drawn.items.has(number)) continue;
      const fresh = itemElement(this.model, number, colour);
      fresh.setAttribute("transform", element.getAttribute("transform"));
      element.replaceWith(fresh);
      this.#elements.items.set(number, fresh);
    }
    return undefined;
  }

  /**
   * Shows another scene, moving what both have.
   *
   * @param {import("./composition.js").Scene} scene
   */
  show(scene) {
    cancelAnimationFrame(this.#frame);
    this.#scene = scene;
    this.#turn(this.#isCrowdIn(scene));
    if (this.#isCrowd) return this.#paint();
    const before = this.#drawn;
    this.#drawn = this.#inSight(scene);
    const moves = this.#update(this.#drawn, before);
    const isStill = !before || moves.length > MOST_MOVED || matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isStill) {
      moves.forEach((move) => move(1));
      this.#keepTitles();
      return this.#settle();
    }
    byId("picture").removeAttribute("data-settled");
    const start = performance.now();
    const step = (now) => {
      const part = Math.min(1, Math.max(0, (now - start) / DURATION));
      const eased = 1 - (1 - part) ** 3;
      moves.forEach((move) => move(eased));
      this.#keepTitles();
      if (part < 1) this.#frame = requestAnimationFrame(step);
      else this.#settle();
    };
    moves.forEach((move) => move(0));
    this.#frame = requestAnimationFrame(step);
    return undefined;
  }

  /** After the view was moved: draws what has come into sight, where not everything is drawn. */
  look() {
    const wasCrowd = this.#isCrowd;
    this.#turn(this.#isCrowdIn(this.#scene));
    if (this.#isCrowd && wasCrowd) return this.crowd.look();
    if (this.#isCrowd) this.#paint();
    else if (wasCrowd || this.#isOutgrown()) this.#drawAnew(this.#scene);
    else return this.#keepTitles();
    return this.onDrawn();
  }

  #keepTitles(seen = this.seen()) {
    if (!this.#isCrowd) keepTitlesInSight(this.#drawn.open, this.#elements.items, seen, (number) => this.model.boxAround(number));
  }

  /** Whether so much is in sight that it has to be painted. */
  #isCrowdIn(scene) {
    const most = MOST_IN_SIGHT * (this.#isCrowd ? FEWER : 1);
    if (scene.items.size <= most) return false;
    const seen = this.seen();
    let count = 0;
    for (const rect of scene.items.values()) if (touch(rect, seen) && ++count > most) return true;
    return false;
  }

  /** Goes over from elements to paint, or back. */
  #turn(isCrowd) {
    if (isCrowd === this.#isCrowd) return;
    cancelAnimationFrame(this.#frame);
    this.#isCrowd = isCrowd;
    byId("stage").toggleAttribute("data-crowd", isCrowd);
    sayWhetherPainted(isCrowd);
    if (!isCrowd) this.crowd.hide();
    for (const layer of Object.values(this.layers)) layer.replaceChildren();
    this.#elements = { back: new Map(), wires: new Map(), items: new Map() };
    this.#drawn = null;
  }

  #paint() {
    this.#covered = this.seen();
    Object.assign(this.#elements, this.crowd.show(this.#scene, this.colour));
    this.#settle();
  }

  #drawAnew(scene) {
    cancelAnimationFrame(this.#frame);
    this.#drawn = this.#inSight(scene);
    this.#update(this.#drawn, null).forEach((move) => move(1));
    this.#keepTitles();
    this.#settle();
  }

  /** Whether something has come into sight that has no element, or elements fill much more than what is seen. */
  #isOutgrown() {
    if (!this.#covered) return false;
    const seen = this.seen();
    return !isWithin(seen, this.#covered) || this.#covered.width * this.#covered.height > MOST_WINDOWS * seen.width * seen.height;
  }

  /** The part of a scene that has elements. */
  #inSight(scene) {
    this.#covered = null;
    if (scene.items.size + scene.lines.length <= MOST_KEPT) return scene;
    const covered = widened(this.seen(), AROUND);
    this.#covered = covered;
    const within = (rects) => new Map([...rects].filter(([, rect]) => touch(rect, covered)));
    const lines = scene.lines.filter((line) => touch((line.bounds ??= boundsOf(line.points)), covered));
    return { ...scene, items: within(scene.items), open: within(scene.open), lines };
  }

  #settle() {
    if (this.#isCrowd) this.labels.replaceChildren();
    else showLabels(this.labels, this.#drawn);
    byId("picture").setAttribute("data-settled", "");
  }

  #update(scene, before) {
    const moves = [];
    this.#keep(this.#elements.back, scene.open);
    this.#keep(this.#elements.wires, new Map(scene.lines.map((line) => [line.key, line])));
    this.#keep(this.#elements.items, new Set([...scene.open.keys(), ...scene.items.keys()]), (number, element) =>
      String(scene.open.get(number)?.box.item ?? "") === (element.dataset.box ?? ""));
    for (const [number, rect] of scene.open) moves.push(this.#open(number, rect, before));
    for (const [number, rect] of scene.items) moves.push(this.#item(number, rect, before));
    const earlier = new Map((before?.lines ?? []).map((line) => [line.key, line]));
    for (const line of scene.lines) moves.push(this.#wire(line, earlier.get(line.key), before));
    this.#order(scene);
    return moves;
  }

  /** Removes what is no longer shown, or shown in another way. */
  #keep(elements, wanted, isSame = () => true) {
    for (const [key, element] of elements) {
      if (wanted.has(key) && isSame(key, element)) continue;
      element.remove();
      elements.delete(key);
    }
  }

  #open(number, rect, before) {
    const was = before?.open.get(number) ?? before?.items.get(number);
    let title = this.#elements.items.get(number);
    let back = this.#elements.back.get(number);
    if (!title || !back) {
      title?.remove();
      back?.remove();
      ({ back, title } = openElements(this.model, number, rect));
      this.#elements.back.set(number, back);
      this.#elements.items.set(number, title);
      this.layers.back.append(back);
      this.layers.items.append(title);
    }
    return (part) => sizeOpen(back, title, { ...rect, ...partway(was ?? rect, rect, part) });
  }

  #item(number, rect, before) {
    let element = this.#elements.items.get(number);
    const isNew = !element;
    if (isNew) {
      element = itemElement(this.model, number, this.colour);
      this.#elements.items.set(number, element);
      this.layers.items.append(element);
    }
    const was = before?.items.get(number) ?? (isNew ? null : rect);
    return (part) => {
      element.setAttribute("transform", translate(was ? partway(was, rect, part) : rect));
      if (isNew && before) element.style.opacity = part < 1 ? part : "";
    };
  }

  #wire(line, was, before) {
    let element = this.#elements.wires.get(line.key);
    if (!element) {
      element = wireElement(this.model, line);
      this.#elements.wires.set(line.key, element);
      this.layers.wires.append(element);
    }
    const isMovable = was && was.points.length === line.points.length;
    return (part) => {
      const points = isMovable && part < 1
        ? line.points.map((point, at) => ({ x: mix(was.points[at].x, point.x, part), y: mix(was.points[at].y, point.y, part) }))
        : line.points;
      moveWire(element, points);
      if (!isMovable && before) element.style.opacity = part < 1 ? part * part : "";
    };
  }

  /** In the order in which a reader's keyboard and screen reader go through them. */
  #order(scene) {
    const inOrder = (elements, keys) => keys.map((key) => elements.get(key)).filter(Boolean);
    this.layers.back.append(...inOrder(this.#elements.back, [...scene.open.keys()].sort((a, b) => scene.open.get(a).depth - scene.open.get(b).depth)));
    const places = [...scene.open, ...scene.items].sort(([, one], [, other]) => one.y - other.y || one.x - other.x);
    this.layers.items.append(...inOrder(this.#elements.items, places.map(([number]) => number)));
  }
}

/** Of what is painted the keyboard reaches only the whole, which says so. */
function sayWhetherPainted(isCrowd) {
  const svg = byId("picture");
  svg.setAttribute("aria-label", isCrowd ? `graph, with so much in sight that it is painted: ${PAINTED_HINT}` : "graph");
  if (isCrowd) svg.setAttribute("tabindex", 0);
  else svg.removeAttribute("tabindex");
}

const mix = (from, to, part) => from + (to - from) * part;

function partway(from, to, part) {
  return {
    x: mix(from.x, to.x, part), y: mix(from.y, to.y, part),
    width: mix(from.width, to.width, part), height: mix(from.height, to.height, part),
  };
}
