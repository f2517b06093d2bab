import { grouped } from "./grouping.js";

/**
 * The graph as data: items by number, what each box holds, and where every item lies.
 *
 * A box that stands for several alike can show the first of them, or each: that is a box of its own, of which its item
 * says `each_of`. A set of open boxes holds at most one of the two, and both are drawn as the same item.
 */

export class Model {
  /** @param {object} document what `readDocument` gives */
  constructor(document) {
    this.document = document;
    putInPlace(document);
    /** The boxes that are open now. */
    this.opened = new Set(document.opened);
    this.items = document.items;
    this.outermost = document.boxes[0];
    this.boxes = new Map(document.boxes.filter((box) => box.item !== null).map((box) => [box.item, box]));
    /** For each autograd node the items that show it: of a leaf there is one beside each user. */
    this.itemsOfNode = new Map();
    this.items.forEach((item, number) => {
      for (const node of item.nodes ?? []) {
        if (!this.itemsOfNode.has(node)) this.itemsOfNode.set(node, []);
        this.itemsOfNode.get(node).push(number);
      }
    });
    /** By a box that stands for several alike, the one that shows each. */
    this.eachBox = new Map([...this.boxes.keys()].filter((box) => this.shownAs(box) !== box).map((box) => [this.shownAs(box), box]));
    /** Of several alike by the module of the first; with a star where each of them is shown. */
    this.boxesByModule = grouped(this.boxes.keys(), (box) => this.moduleOf(box));
    this.childBoxes = grouped(new Set([...this.boxes.keys()].map((box) => this.shownAs(box))), (number) => this.parentOf(number));
  }

  /** What colours mean at first: what was asked for, unless there is nothing of it. */
  get firstColour() {
    const { color_by: asked, legends } = this.document;
    return asked in legends ? asked : "role";
  }

  /** The item of a node, of several the first that can be shown as boxes are open; undefined for no node of this graph. */
  itemOfNode(node, opened = this.opened) {
    const items = this.itemsOfNode.get(node);
    return items?.find((item) => this.isCurrent(item, opened)) ?? items?.[0];
  }

  /** Where a box stands in the model, as addresses call it; empty for what is no module. */
  moduleOf(box) {
    const module = (this.items[box].path ?? "").split(" ")[0];
    return module && this.shownAs(box) !== box ? `${module}*` : module;
  }

  /** The item by which a box is drawn. */
  shownAs(number) {
    return this.items[number].each_of ?? number;
  }

  /** Whether an item is a box that has an inside to show. */
  canOpen(number) {
    return this.boxes.has(number) || this.eachBox.has(number);
  }

  /** How an item is open, as a box of `boxes`; null where it is closed. */
  openAs(number, opened) {
    return [number, this.eachBox.get(number)].find((box) => opened.has(box) && this.boxes.has(box)) ?? null;
  }

  /** A set of open boxes with more of them open. */
  withOpen(opened, boxes) {
    const more = new Set(opened);
    for (const box of boxes) {
      more.delete(this.shownAs(box));
      more.delete(this.eachBox.get(box));
      more.add(box);
    }
    return more;
  }

  /** Whether an item has its place where boxes are open like that: none, of what is in a box that is to show something else. */
  isCurrent(number, opened = this.opened) {
    return !this.eachBox.size || this.boxesAround(number).every((box) => (this.shownAs(box) === box ? !opened.has(this.eachBox.get(box)) : opened.has(box)));
  }

  /** Whether it is one of several alike, told apart only in a box that shows each. */
  isOneOfEach(number) {
    return this.shownAs(number) !== number || this.boxesAround(number).some((box) => this.shownAs(box) !== box);
  }

  /** @returns {number|null} the box around an item; null for the outermost level */
  parentOf(number) {
    return this.items[number].parent ?? null;
  }

  /** What is drawn around an item; null for nothing. */
  boxAround(number) {
    const parent = this.parentOf(number);
    return parent === null ? null : this.shownAs(parent);
  }

  /** The boxes around an item, the outermost first. */
  boxesAround(number) {
    const around = [];
    for (let box = this.parentOf(number); box !== null; box = this.parentOf(box)) around.unshift(box);
    return around;
  }

  /** A box and every box inside it; of those that can show each of several alike the first, unless they do so already. */
  boxesWithin(number, opened = this.opened) {
    const found = [];
    const waiting = [number];
    while (waiting.length) {
      const next = waiting.pop();
      const box = next === null ? null : this.openAs(next, opened) ?? (this.boxes.has(next) ? next : this.eachBox.get(next));
      if (box !== null) found.push(box);
      waiting.push(...(this.childBoxes.get(box) ?? []));
    }
    return found;
  }

  /** The item itself where everything around it is open, else the outermost closed box that hides it. */
  shownFor(number, opened) {
    return this.shownAs(this.boxesAround(number).find((box) => !opened.has(box)) ?? number);
  }

  /** Its whole module path, or its title. */
  nameOf(number) {
    const item = this.items[number];
    return item.path || item.title;
  }
}

/** Many things share their words, so these have numbers in what the file carries: here they take the place of the numbers. */
function putInPlace({ items, lines, tints, boxes, flows }) {
  for (const item of items) {
    item.lines &&= item.lines.map((number) => lines[number]);
    item.tints = tints[item.tints];
  }
  for (const { wires, clusters } of boxes) {
    for (const wire of wires) wire.flow = flows[wire.flow];
    for (const { places } of clusters) for (const place of places) place[4] = flows[place[4]];
  }
}
