/**
 * The graph as data: items by number, what each box holds, and where every item lies.
 *
 * A box that stands for several alike can show the first of them, or each: that is a box of its own, of which its item
 * says `each_of`. A set of open boxes holds at most one of the two, and both are drawn as the same item.
 *
 * @import { Box, GraphDocument, Item, TitledBox } from "../document/types.js"
 * @import { Scale } from "./color-scale.js"
 */
import { append, groupBy } from "../shared/group-by.js";
import { isQuantity, scaleFor, stepOf } from "./color-scale.js";

export class Model {
  /** @param {GraphDocument} document */
  constructor(document) {
    this.document = document;
    /** The boxes that are open now. */
    this.opened = new Set(document.opened);
    this.items = document.items;
    /** Whether data flows from left to right, with x and y of all boxes exchanged. */
    this.isSideways = false;
    this.outermost = document.boxes[0];
    this.boxes = byItem(document.boxes);
    /** @type {Partial<Record<string, Scale|null>>} what colours mean for what is shown, by what was measured */
    this.scales = {};
    /**
     * For each autograd node the items that show it: of a leaf there is one beside each user.
     *
     * @type {Map<number, number[]>}
     */
    this.itemsOfNode = new Map();
    this.items.forEach((item, number) => {
      for (const node of item.nodes ?? []) append(this.itemsOfNode, node, number);
    });
    /** By a box that stands for several alike, the one that shows each. */
    this.eachBox = new Map([...this.boxes.keys()].filter((box) => this.shownAs(box) !== box).map((box) => [this.shownAs(box), box]));
    /** Of several alike by the module of the first; with a star where each of them is shown. */
    this.boxesByModule = groupBy(this.boxes.keys(), (box) => this.moduleOf(box));
    this.childBoxes = groupBy(new Set([...this.boxes.keys()].map((box) => this.shownAs(box))), (number) => this.parentOf(number));
  }

  /** Whether there is a layout from left to right. */
  get canTurn() {
    return this.document.sideways.length > 0;
  }

  /** @param {boolean} isSideways */
  turn(isSideways) {
    if (isSideways === this.isSideways || (isSideways && !this.canTurn)) return;
    this.isSideways = isSideways;
    const boxes = isSideways ? this.document.sideways : this.document.boxes;
    this.outermost = boxes[0];
    this.boxes = byItem(boxes);
  }

  /**
   * Fits the scales of measured figures to what is shown.
   *
   * @param {Iterable<number>} shown
   * @returns {boolean} whether colours change by that
   */
  rescale(shown) {
    const before = JSON.stringify(this.scales);
    const numbers = [...shown];
    for (const by of Object.keys(this.document.legends).filter(isQuantity)) {
      const figures = numbers.flatMap((number) => (this.items[number].readings?.[by] ?? []).filter((reading) => typeof reading === "number"));
      this.scales[by] = scaleFor(by, figures);
    }
    return before !== JSON.stringify(this.scales);
  }

  /**
   * The classes of an item's bands: one for each of several alike, if they differ.
   *
   * @param {Item} item
   * @param {string} colour
   * @returns {string[]}
   */
  tintsOf(item, colour) {
    if (!isQuantity(colour)) return item.tints?.[colour] ?? [];
    const scale = this.scales[colour];
    return (item.readings?.[colour] ?? []).map((reading) => {
      if (typeof reading === "string") return reading;
      return scale && reading > 0 ? `step${stepOf(scale, reading)}` : "plain";
    });
  }

  /** What colours mean at first: what was asked for, unless there is nothing of it. */
  get firstColour() {
    const { color_by: asked, legends } = this.document;
    return asked in legends ? asked : "none";
  }

  /**
   * The item of a node, of several the first that can be shown as boxes are open; undefined for no node of this graph.
   *
   * @param {number|null|undefined} node
   * @param {Set<number>} opened
   * @returns {number|undefined}
   */
  itemOfNode(node, opened = this.opened) {
    if (node === null || node === undefined) return undefined;
    const items = this.itemsOfNode.get(node);
    return items?.find((item) => this.isCurrent(item, opened)) ?? items?.[0];
  }

  /**
   * Where a box stands in the model, as addresses call it; empty for what is no module.
   *
   * @param {number} box
   */
  moduleOf(box) {
    const module = (this.items[box].path ?? "").split(" ")[0];
    return module && this.shownAs(box) !== box ? `${module}*` : module;
  }

  /**
   * The item by which a box is drawn.
   *
   * @param {number} number
   */
  shownAs(number) {
    return this.items[number].each_of ?? number;
  }

  /**
   * Whether an item is a box that has an inside to show.
   *
   * @param {number} number
   */
  canOpen(number) {
    return this.boxes.has(number) || this.eachBox.has(number);
  }

  /**
   * What an item shows inside once it is opened; undefined for no box.
   *
   * @param {number} number
   */
  insideOf(number) {
    return this.boxes.has(number) ? number : this.eachBox.get(number);
  }

  /**
   * How an item is open, as a box of `boxes`; null where it is closed.
   *
   * @param {number} number
   * @param {Set<number>} opened
   * @returns {number|null}
   */
  openAs(number, opened) {
    return this.openBox(number, opened)?.item ?? null;
  }

  /**
   * What an item holds as it is open; undefined where it is closed.
   *
   * @param {number} number
   * @param {Set<number>} opened
   * @returns {TitledBox|undefined}
   */
  openBox(number, opened) {
    const each = this.eachBox.get(number);
    return (opened.has(number) ? this.boxes.get(number) : undefined) ?? (each !== undefined && opened.has(each) ? this.boxes.get(each) : undefined);
  }

  /**
   * Whether a box that stands for several alike shows each of them.
   *
   * @param {number} number
   * @param {Set<number>} opened
   */
  showsEach(number, opened) {
    const each = this.eachBox.get(number);
    return each !== undefined && opened.has(each);
  }

  /**
   * A set of open boxes with more of them open.
   *
   * @param {Set<number>} opened
   * @param {number[]} boxes
   */
  withOpen(opened, boxes) {
    const more = new Set(opened);
    for (const box of boxes) {
      const each = this.eachBox.get(box);
      more.delete(this.shownAs(box));
      if (each !== undefined) more.delete(each);
      more.add(box);
    }
    return more;
  }

  /**
   * Whether an item has its place where boxes are open like that: none, of what is in a box that is to show something else.
   *
   * @param {number} number
   * @param {Set<number>} opened
   */
  isCurrent(number, opened = this.opened) {
    return !this.eachBox.size || this.boxesAround(number).every((box) => (this.shownAs(box) === box ? !this.showsEach(box, opened) : opened.has(box)));
  }

  /**
   * Whether it is one of several alike, told apart only in a box that shows each.
   *
   * @param {number} number
   */
  isOneOfEach(number) {
    return this.shownAs(number) !== number || this.boxesAround(number).some((box) => this.shownAs(box) !== box);
  }

  /**
   * @param {number} number
   * @returns {number|null} the box around an item; null for the outermost level
   */
  parentOf(number) {
    return this.items[number].parent ?? null;
  }

  /**
   * What is drawn around an item; null for nothing.
   *
   * @param {number} number
   */
  boxAround(number) {
    const parent = this.parentOf(number);
    return parent === null ? null : this.shownAs(parent);
  }

  /**
   * The boxes around an item, the outermost first.
   *
   * @param {number} number
   */
  boxesAround(number) {
    const around = [];
    for (let box = this.parentOf(number); box !== null; box = this.parentOf(box)) around.unshift(box);
    return around;
  }

  /**
   * A box and every box inside it; of those that can show each of several alike the first, unless they do so already.
   *
   * @param {number|null} number null for all of them
   * @param {Set<number>} opened
   */
  boxesWithin(number, opened = this.opened) {
    const found = [];
    const waiting = [number];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const box = next === null ? null : this.openAs(next, opened) ?? this.insideOf(next);
      if (typeof box === "number") found.push(box);
      if (box !== undefined) waiting.push(...(this.childBoxes.get(box) ?? []));
    }
    return found;
  }

  /**
   * The item itself where everything around it is open, else the outermost closed box that hides it.
   *
   * @param {number} number
   * @param {Set<number>} opened
   */
  shownFor(number, opened) {
    return this.shownAs(this.boxesAround(number).find((box) => !opened.has(box)) ?? number);
  }

  /**
   * Its whole module path, or its title.
   *
   * @param {number} number
   */
  nameOf(number) {
    const item = this.items[number];
    return item.path || item.title;
  }
}

/**
 * Whether a box is drawn with its title: all but the outermost level.
 *
 * @param {Box} box
 * @returns {box is TitledBox}
 */
const isTitled = (box) => box.item !== null && box.header !== null;

/** @param {Box[]} boxes */
const byItem = (boxes) => new Map(boxes.filter(isTitled).map((box) => [box.item, box]));
