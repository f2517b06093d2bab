/** The backward pass as steps: how it stands with everything when a step is over. */

export class Replay {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    const { steps, beginning, was_watched: wasWatched } = model.document.replay;
    this.model = model;
    this.steps = steps.map((step) => ({ ...step, arrivals: step.arrivals.map(([from, slot, amount]) => ({ step: from, slot, amount })) }));
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
    const { arrivals } = this.step(next);
    const come = arrivals.filter(({ step }) => step <= at).length;
    if (own[0] < at) return "partly";
    return come === 0 ? "ahead" : come === arrivals.length ? "ready" : "waits";
  }

  /** The gradients that an item gets for the step in which it runs next, or ran last: those that have arrived, and all. */
  arrivalsAt(item, at) {
    const own = this.stepsOf.get(item) ?? [];
    const number = own.find((each) => each >= at) ?? own.at(-1);
    if (number === undefined) return null;
    const { arrivals, sums } = this.step(number);
    return { arrivals, sums, come: arrivals.filter(({ step }) => step <= at) };
  }

  /** What flows back along a wire from one of `takers` to an item, when a step is over; empty where that is not one gradient. */
  amountOn(item, takers, at) {
    const steps = new Set(takers.flatMap((taker) => this.stepsOf.get(taker) ?? (this.isRoot(taker) ? [0] : [])));
    const sent = (this.arrivalsAt(item, at)?.come ?? []).filter(({ step }) => steps.has(step));
    return sent.length === 1 ? sent[0].amount : "";
  }

  isRoot(item) {
    return this.model.items[item].role === "root";
  }
}
