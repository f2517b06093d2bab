/** The backward pass as steps: how it stands with everything when a step is over. */

export class Replay {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    const { steps, beginning, was_watched: wasWatched } = model.document.replay;
    this.model = model;
    this.steps = steps;
    this.beginning = beginning;
    this.wasWatched = wasWatched;
    /** For each item, closed boxes as well, the steps in which something of it runs, in order. */
    this.stepsOf = new Map();
    steps.forEach(({ nodes }, place) => {
      const touched = new Set();
      for (const node of nodes) {
        for (const item of model.itemsOfNode.get(node) ?? []) {
          touched.add(item);
          for (const box of model.boxesAround(item)) touched.add(box);
        }
      }
      for (const item of touched) {
        if (!this.stepsOf.has(item)) this.stepsOf.set(item, []);
        this.stepsOf.get(item).push(place + 1);
      }
    });
  }

  get length() {
    return this.steps.length;
  }

  /** The step with a number, counted from 1. */
  step(number) {
    return this.steps[number - 1];
  }

  /** The items that show a step, closed boxes as well. */
  itemsAt(number) {
    return number < 1 ? [] : this.step(number).nodes.flatMap((node) => this.model.itemsOfNode.get(node) ?? []);
  }

  /**
   * How it stands with an item when a step is over: ``ran``, ``runs``, ``ready``, ``waits`` for more, ``ahead``, or
   * ``never`` for what backward does not run.
   */
  stateOf(item, at) {
    const own = this.stepsOf.get(item);
    if (!own) return "never";
    if (own.includes(at)) return "runs";
    const next = own.find((number) => number > at);
    if (next === undefined) return "ran";
    const { senders } = this.step(next);
    const come = senders.filter((sender) => sender <= at).length;
    if (own[0] < at) return "partly";
    return come === 0 ? "ahead" : come === senders.length ? "ready" : "waits";
  }
}
