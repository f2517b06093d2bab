/**
 * What is shown of the graph, and where: the scene with the picture and the small map of it, and the part that is in sight.
 *
 * @import { Part } from "../graph/connections.js"
 * @import { Model } from "../graph/model.js"
 */
import { Connections } from "../graph/connections.js";
import { compose, rectOf, shift } from "../layout/compose-scene.js";
import { condensed } from "../layout/condense-scene.js";
import { besideOf, nearestOf } from "../layout/nearest-item.js";
import { isWithin } from "../layout/rectangles.js";
import { Minimap } from "./minimap.js";
import { Picture } from "./picture.js";
import { fileName, savePng, saveSvg } from "./save-image.js";
import { Viewport } from "./viewport.js";

export class Stage {
  /**
   * @param {Model} model
   * @param {() => void} onDrawn called when other things have come into sight
   */
  constructor(model, onDrawn) {
    this.model = model;
    this.viewport = new Viewport();
    this.picture = new Picture(model, () => this.viewport.seen, onDrawn);
    this.minimap = new Minimap(this.viewport);
    this.connections = new Connections(this.picture.scene);
  }

  get scene() {
    return this.picture.scene;
  }

  /**
   * Shows the graph with some boxes open; where an item was clicked to open or close it, that stays where it is.
   *
   * @param {Set<number>} opened
   * @param {number|null} anchor
   * @param {(() => Part)|null} litOf to show only a part of it, laid out anew
   */
  show(opened, anchor = null, litOf = null) {
    const was = anchor === null ? null : this.rectOf(anchor);
    const whole = compose(this.model, opened);
    this.connections = new Connections(whole);
    const scene = litOf ? condensed(whole, litOf(), (number) => this.#drawnAround(number)) : whole;
    const now = anchor === null ? null : rectOf(scene, anchor);
    if (was && now) shift(scene, was.x + was.width / 2 - (now.x + now.width / 2), was.y - now.y);
    if (this.model.rescale(scene.items.keys())) this.picture.recolour(this.picture.colour);
    this.picture.show(scene);
    this.minimap.show(scene);
  }

  /**
   * The items by which the boxes around an item are drawn.
   *
   * @param {number} number
   */
  #drawnAround(number) {
    return this.model.boxesAround(number).map((box) => this.model.shownAs(box));
  }

  /** What is seen, so that an address can tell it; null for all of it. */
  get position() {
    return this.viewport.isFitted ? null : this.viewport.positionFrom(this.scene);
  }

  /** @param {{x: number, y: number, zoom: number}} position */
  goTo(position) {
    this.viewport.goFrom(this.scene, position);
  }

  /**
   * Whether words can be read where everything is shown, with some boxes open.
   *
   * @param {Set<number>} opened
   */
  isLegible(opened) {
    return this.viewport.fitted(compose(this.model, opened)).isLegible;
  }

  /**
   * The boxes whose titles are out of sight above, while their insides fill the middle of what is seen; the outermost first.
   *
   * @returns {number[]}
   */
  get surrounding() {
    const { x, y, width, height } = this.viewport.seen;
    const middle = { x: x + width / 2, y: y + height / 3 };
    return [...this.scene.open].filter(([, rect]) => rect.y < y && rect.x <= middle.x && rect.x + rect.width >= middle.x
      && rect.y + rect.height >= middle.y).map(([number]) => number);
  }

  /** In the colours of another theme. */
  repaintMinimap() {
    this.minimap.show(this.scene);
  }

  /**
   * Where an item is shown, open or closed; null where it is not.
   *
   * @param {number} number
   */
  rectOf(number) {
    return rectOf(this.scene, number);
  }

  /**
   * All of the scene, as large as it can be read; with `isLegible`, no smaller than that either.
   *
   * @param {{isLegible?: boolean, isMoved?: boolean}} [how]
   */
  fit(how) {
    this.viewport.fit(this.scene, { ...how, isFromLeft: this.model.isSideways });
  }

  /** Fits the picture again where it was, after the window around it has changed. */
  refit() {
    if (this.viewport.isFitted) this.fit({ isLegible: true, isMoved: false });
  }

  get isAllSeen() {
    return isWithin(this.scene, this.viewport.seen);
  }

  /**
   * Brings an item into sight, where it is shown.
   *
   * @param {number} number
   */
  reveal(number) {
    const rect = this.rectOf(number);
    if (rect) this.viewport.reveal(rect);
  }

  /**
   * Of several items the first that is shown, or the box that hides it.
   *
   * @param {number[]} numbers
   * @param {Set<number>} opened
   */
  revealFirst(numbers, opened) {
    const current = numbers.filter((number) => this.model.isCurrent(number));
    const shown = current.map((number) => this.model.shownFor(number, opened)).find((number) => this.rectOf(number));
    if (shown !== undefined) this.reveal(shown);
  }

  /**
   * What is shown of an item: of an open box, what is in it.
   *
   * @param {number} number
   */
  ownItems(number) {
    const { items } = this.connections.scene;
    if (items.has(number)) return [number];
    return [...items.keys()].filter((item) => this.model.boxesAround(item).some((box) => this.model.shownAs(box) === number));
  }

  /**
   * What an arrow key leads to: up to what the data came from, down to where it goes, aside on the same level; at first to
   * anything; null for nothing.
   *
   * @param {number|null} number
   * @param {"up"|"down"|"left"|"right"} direction
   * @returns {number|null}
   */
  nextOf(number, direction) {
    if (number === null) return [...this.scene.items.keys()].at(0) ?? null;
    if (direction === "left" || direction === "right") return besideOf(this.scene, number, direction);
    const neighbours = this.connections.neighbours(this.ownItems(number), direction === "up" ? "back" : "onwards");
    return nearestOf(this.model, this.scene, number, neighbours);
  }

  /** What can be saved and printed. */
  get area() {
    return this.picture.isWhole ? this.scene : this.viewport.seen;
  }

  /** @param {"svg"|"png"} kind */
  save(kind) {
    const name = fileName(this.model.document.name);
    const { area } = this;
    const putBack = this.picture.lendElements();
    try {
      if (kind === "svg") saveSvg(area, name);
      else savePng(area, name);
    } finally {
      putBack();
    }
  }
}
