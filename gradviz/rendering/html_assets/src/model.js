/** The graph as data: items by number, what each box holds, and where every item lies. */

export class Model {
  /** @param {object} document what `readDocument` gives */
  constructor(document) {
    this.document = document;
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
    this.childBoxes = new Map();
    for (const number of this.boxes.keys()) {
      const parent = this.parentOf(number);
      if (!this.childBoxes.has(parent)) this.childBoxes.set(parent, []);
      this.childBoxes.get(parent).push(number);
    }
  }

  /** What colours mean at first: what was asked for, unless there is nothing of it. */
  get firstColour() {
    const { color_by: asked, legends } = this.document;
    return asked in legends ? asked : "role";
  }

  /** The item of a node, of several the first; undefined for a node that this graph does not have. */
  itemOfNode(node) {
    return this.itemsOfNode.get(node)?.[0];
  }

  /** The step of the backward pass in which a node ran; undefined where it did not, or cannot be played. */
  stepOf(node) {
    this.steps ??= new Map(this.document.replay?.steps.flatMap((step) => step.nodes.map((each) => [each, step])));
    return this.steps.get(node);
  }

  /** Whether an item is a box that has an inside to show. */
  canOpen(number) {
    return this.boxes.has(number);
  }

  /** @returns {number|null} the box around an item; null for the outermost level */
  parentOf(number) {
    return this.items[number].parent ?? null;
  }

  /** The boxes around an item, the outermost first. */
  boxesAround(number) {
    const around = [];
    for (let box = this.parentOf(number); box !== null; box = this.parentOf(box)) around.unshift(box);
    return around;
  }

  /** A box and every box inside it. */
  boxesWithin(number) {
    const found = [];
    const waiting = [number];
    while (waiting.length) {
      const box = waiting.pop();
      if (box !== null) found.push(box);
      waiting.push(...(this.childBoxes.get(box) ?? []));
    }
    return found;
  }

  /** The item itself where everything around it is open, else the outermost closed box that hides it. */
  shownFor(number, opened) {
    return this.boxesAround(number).find((box) => !opened.has(box)) ?? number;
  }

  /** Its whole module path, or its title. */
  nameOf(number) {
    const item = this.items[number];
    return item.path || item.title;
  }
}
