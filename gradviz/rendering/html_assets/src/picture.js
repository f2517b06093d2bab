/** The picture: keeps the elements of what is shown, and moves them where a new scene has them. */
import { byId, s } from "./dom.js";
import { itemElement, moveWire, openElements, sizeOpen, translate, wireElement } from "./shapes.js";

const DURATION = 220;
/** So many elements are moved step by step; more jump at once. */
const MOST_MOVED = 600;
/** Of a picture with more, only what is in sight has elements. */
const MOST_KEPT = 2000;

export class Picture {
  #scene = null;
  #frame = 0;
  #elements = { back: new Map(), wires: new Map(), items: new Map() };

  #drawn = null;
  #covered = null;

  /**
   * @param {import("./model.js").Model} model
   * @param {() => import("./composition.js").Rect} seen what part of the scene is in sight
   * @param {() => void} onDrawn called when other things have come into sight
   */
  constructor(model, seen, onDrawn) {
    this.model = model;
    this.seen = seen;
    this.onDrawn = onDrawn;
    this.layers = {};
    for (const name of ["back", "wires", "items"]) {
      this.layers[name] = s("g", { class: name === "wires" ? "l" : name });
      byId("scene").append(this.layers[name]);
    }
    this.colour = "role";
  }

  get scene() {
    return this.#scene;
  }

  /** False where only what is in sight is drawn. */
  get isWhole() {
    return this.#covered === null;
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
    for (const [number, element] of this.#elements.items) {
      if (!this.#drawn.items.has(number)) continue;
      const fresh = itemElement(this.model, number, colour);
      fresh.setAttribute("transform", element.getAttribute("transform"));
      element.replaceWith(fresh);
      this.#elements.items.set(number, fresh);
    }
  }

  /**
   * Shows another scene, moving what both have.
   *
   * @param {import("./composition.js").Scene} scene
   */
  show(scene) {
    cancelAnimationFrame(this.#frame);
    const before = this.#drawn;
    this.#scene = scene;
    this.#drawn = this.#inSight(scene);
    const moves = this.#update(this.#drawn, before);
    const isStill = !before || moves.length > MOST_MOVED || matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isStill) {
      moves.forEach((move) => move(1));
      return this.#settle();
    }
    byId("picture").removeAttribute("data-settled");
    const start = performance.now();
    const step = (now) => {
      const part = Math.min(1, Math.max(0, (now - start) / DURATION));
      const eased = 1 - (1 - part) ** 3;
      moves.forEach((move) => move(eased));
      if (part < 1) this.#frame = requestAnimationFrame(step);
      else this.#settle();
    };
    moves.forEach((move) => move(0));
    this.#frame = requestAnimationFrame(step);
  }

  /** After the view was moved: draws what has come into sight, where not everything is drawn. */
  look() {
    if (!this.#covered || isWithin(this.seen(), this.#covered)) return;
    cancelAnimationFrame(this.#frame);
    this.#drawn = this.#inSight(this.#scene);
    this.#update(this.#drawn, null).forEach((move) => move(1));
    this.#settle();
    this.onDrawn();
  }

  /** The part of a scene that has elements: with half a window around what is seen. */
  #inSight(scene) {
    this.#covered = null;
    if (scene.items.size + scene.lines.length <= MOST_KEPT) return scene;
    const { x, y, width, height } = this.seen();
    const covered = { x: x - width / 2, y: y - height / 2, width: 2 * width, height: 2 * height };
    this.#covered = covered;
    const within = (rects) => new Map([...rects].filter(([, rect]) => touch(rect, covered)));
    const lines = scene.lines.filter((line) => touch((line.bounds ??= boundsOf(line.points)), covered));
    return { ...scene, items: within(scene.items), open: within(scene.open), lines };
  }

  #settle() {
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
      const { arrows, legends } = this.model.document;
      element = wireElement(line, arrows, { role: this.model.items[line.source].role, ends: legends.gradient?.ends });
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

const mix = (from, to, part) => from + (to - from) * part;

function partway(from, to, part) {
  return {
    x: mix(from.x, to.x, part), y: mix(from.y, to.y, part),
    width: mix(from.width, to.width, part), height: mix(from.height, to.height, part),
  };
}

const touch = (one, other) =>
  one.x <= other.x + other.width && other.x <= one.x + one.width && one.y <= other.y + other.height && other.y <= one.y + one.height;

export const isWithin = (inner, outer) =>
  inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width && inner.y + inner.height <= outer.y + outer.height;

function boundsOf(points) {
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}
