/**
 * The elements of what is drawn: makes them, moves them where a new scene has them, and removes what is gone.
 *
 * @import { Model } from "../graph/model.js"
 * @import { OpenRect, Rect, Scene, SceneLine } from "../layout/types.js"
 *
 * @typedef {Map<number, SVGGElement>} ItemElements by number: closed items, and titles of open boxes
 * @typedef {Map<string, SVGGElement>} WireElements by key
 * @typedef {{back: SVGGElement, wires: SVGGElement, items: SVGGElement}} Layers
 * @typedef {(part: number) => void} Move shows something on its way: 0 where it was, 1 where it goes
 */
import { s } from "../shared/dom.js";
import { pillOfOpen } from "./pills.js";
import { exchangePill, itemElement, moveWire, openElements, sizeOpen, translate, wireElement, wireKind } from "./svg-elements.js";

export class ElementLayers {
  /** @type {Layers} the lower before the upper */
  layers = { back: s("g", { class: "back" }), wires: s("g", { class: "l" }), items: s("g", { class: "items" }) };
  /** @type {Map<number, SVGRectElement>} grounds of open boxes */
  #backs = new Map();
  /** @type {ItemElements} */
  items = new Map();
  /** @type {WireElements} */
  wires = new Map();

  /** @param {Model} model */
  constructor(model) {
    this.model = model;
  }

  /** Removes everything. */
  clear() {
    for (const layer of Object.values(this.layers)) layer.replaceChildren();
    this.#backs = new Map();
    this.items = new Map();
    this.wires = new Map();
  }

  /**
   * Items and titles of open boxes again, and wires as wide as they are now, in other colours.
   *
   * @param {Scene} scene
   * @param {string} colour
   */
  recolour(scene, colour) {
    for (const [number, element] of this.items) {
      const open = scene.open.get(number);
      if (open) exchangePill(element, pillOfOpen(this.model.items[number], open.box.chip, colour));
      if (!scene.items.has(number)) continue;
      const fresh = itemElement(this.model, number, colour);
      fresh.setAttribute("transform", element.getAttribute("transform") ?? "");
      element.replaceWith(fresh);
      this.items.set(number, fresh);
    }
    for (const line of scene.lines) this.wires.get(line.key)?.lastElementChild?.setAttribute("class", wireKind(this.model, line) ?? "");
  }

  /**
   * Goes over to another scene.
   *
   * @param {Scene} scene
   * @param {Scene|null} before
   * @param {string} colour of closed items
   * @returns {Move[]}
   */
  update(scene, before, colour) {
    keep(this.#backs, (number) => scene.open.has(number));
    const keys = new Set(scene.lines.map((line) => line.key));
    keep(this.wires, (key) => keys.has(key));
    keep(this.items, (number, { dataset }) =>
      (scene.items.has(number) || scene.open.has(number)) && String(scene.open.get(number)?.box.item ?? "") === (dataset.box ?? ""));
    /** @type {Move[]} */
    const moves = [];
    for (const [number, rect] of scene.open) moves.push(this.#open(number, rect, before, colour));
    for (const [number, rect] of scene.items) moves.push(this.#item(number, rect, before, colour));
    const earlier = new Map((before?.lines ?? []).map((line) => [line.key, line]));
    for (const line of scene.lines) moves.push(this.#wire(line, earlier.get(line.key), before));
    this.#order(scene);
    return moves;
  }

  /**
   * @param {number} number
   * @param {OpenRect} rect
   * @param {Scene|null} before
   * @param {string} colour
   * @returns {Move}
   */
  #open(number, rect, before, colour) {
    const was = before?.open.get(number) ?? before?.items.get(number) ?? rect;
    const { back, title } = this.#elementsOfOpen(number, rect, colour);
    return (part) => sizeOpen(back, title, { ...rect, ...partway(was, rect, part) });
  }

  /**
   * @param {number} number
   * @param {OpenRect} rect
   * @param {string} colour
   */
  #elementsOfOpen(number, rect, colour) {
    const known = { back: this.#backs.get(number), title: this.items.get(number) };
    if (known.title && known.back) return { back: known.back, title: known.title };
    known.title?.remove();
    known.back?.remove();
    const { back, title } = openElements(this.model, number, rect, colour);
    this.#backs.set(number, back);
    this.items.set(number, title);
    this.layers.back.append(back);
    this.layers.items.append(title);
    return { back, title };
  }

  /**
   * @param {number} number
   * @param {Rect} rect
   * @param {Scene|null} before
   * @param {string} colour
   * @returns {Move}
   */
  #item(number, rect, before, colour) {
    const known = this.items.get(number);
    const element = known ?? itemElement(this.model, number, colour);
    if (!known) {
      this.items.set(number, element);
      this.layers.items.append(element);
    }
    const was = before?.items.get(number) ?? (known ? rect : null);
    return (part) => {
      element.setAttribute("transform", translate(was ? partway(was, rect, part) : rect));
      if (!known && before) element.style.opacity = part < 1 ? String(part) : "";
    };
  }

  /**
   * @param {SceneLine} line
   * @param {SceneLine|undefined} was
   * @param {Scene|null} before
   * @returns {Move}
   */
  #wire(line, was, before) {
    const known = this.wires.get(line.key);
    const element = known ?? wireElement(this.model, line);
    if (!known) {
      this.wires.set(line.key, element);
      this.layers.wires.append(element);
    }
    const start = was && was.points.length === line.points.length ? was.points : null;
    return (part) => {
      const points = start && part < 1
        ? line.points.map((point, at) => ({ x: mix(start[at].x, point.x, part), y: mix(start[at].y, point.y, part) }))
        : line.points;
      moveWire(element, points);
      if (!start && before) element.style.opacity = part < 1 ? String(part * part) : "";
    };
  }

  /**
   * In the order in which a reader's keyboard and screen reader go through them.
   *
   * @param {Scene} scene
   */
  #order(scene) {
    const backs = [...scene.open].sort(([, one], [, other]) => one.depth - other.depth);
    this.layers.back.append(...backs.flatMap(([number]) => this.#backs.get(number) ?? []));
    const items = [...scene.open, ...scene.items].sort(([, one], [, other]) => one.y - other.y || one.x - other.x);
    this.layers.items.append(...items.flatMap(([number]) => this.items.get(number) ?? []));
  }
}

/**
 * Removes what is no longer shown, or shown in another way.
 *
 * @template Key
 * @template {SVGElement} E
 * @param {Map<Key, E>} elements
 * @param {(key: Key, element: E) => boolean} isWanted
 */
function keep(elements, isWanted) {
  for (const [key, element] of elements) {
    if (isWanted(key, element)) continue;
    element.remove();
    elements.delete(key);
  }
}

/**
 * @param {number} from
 * @param {number} to
 * @param {number} part
 */
const mix = (from, to, part) => from + (to - from) * part;

/**
 * @param {Rect} from
 * @param {Rect} to
 * @param {number} part
 * @returns {Rect}
 */
function partway(from, to, part) {
  return {
    x: mix(from.x, to.x, part), y: mix(from.y, to.y, part),
    width: mix(from.width, to.width, part), height: mix(from.height, to.height, part),
  };
}
