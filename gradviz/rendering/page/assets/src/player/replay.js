/**
 * The backward pass as steps: how it stands with everything when a step is over.
 *
 * @import { Model } from "../graph/model.js"
 * @import { PageArrival, Step } from "../document/types.js"
 * @import { PageReplay } from "../document/wire-types.js"
 *
 * @typedef {"ran"|"runs"|"ready"|"waits"|"partly"|"ahead"|"never"} State of an item when a step is over
 * @typedef {{arrivals: PageArrival[], come: PageArrival[], sums: string[]}} Gradients all that an item gets for a step, those
 *   that have arrived, and what they make together
 */
import { decodeSteps } from "../document/decode-document.js";
import { append } from "../shared/group-by.js";

export class Replay {
  /**
   * @param {Model} model
   * @param {PageReplay} replay
   */
  constructor(model, replay) {
    this.model = model;
    this.steps = decodeSteps(replay);
    this.beginning = replay.beginning;
    this.wasWatched = replay.was_watched;
    /**
     * For each item, closed boxes as well, the steps in which something of it runs, in order.
     *
     * @type {Map<number, number[]>}
     */
    this.stepsOf = new Map();
    this.steps.forEach(({ nodes }, index) => {
      /** @type {Set<number>} */
      const touched = new Set();
      for (const node of nodes) {
        for (const item of model.itemsOfNode.get(node) ?? []) {
          touched.add(item);
          for (const box of model.boxesAround(item)) touched.add(box);
        }
      }
      for (const item of touched) append(this.stepsOf, item, index + 1);
    });
  }

  get length() {
    return this.steps.length;
  }

  /**
   * The steps at which the player stops. Steps that one visible thing shows are taken together, and so are the leaves
   * that get their gradients one after the other; of leaves inside a closed box nothing is seen, so they are no stop.
   * Where one thing is drawn for several alike (×12), the first of them to run is played, and all others are one stop:
   * they would light up the same items again.
   *
   * @param {Set<number>} opened
   * @returns {number[]}
   */
  stops(opened) {
    /** @type {number[]} */
    const stops = [];
    let before = "";
    /** @type {Set<number>} */
    const played = new Set();
    this.steps.forEach(({ nodes }, index) => {
      const items = nodes.flatMap((node) => this.model.itemOfNode(node, opened) ?? []);
      const isLeaf = items.length > 0 && items.every((item) => this.model.items[item].is_leaf);
      const shown = items.map((item) => this.model.shownFor(item, opened));
      const isHidden = isLeaf && shown.every((item, at) => item !== items[at]);
      const own = isLeaf && !isHidden ? "leaves" : [...new Set(shown)].sort().join();
      const isAgain = own !== before && shown.length > 0 && shown.every((item) => played.has(item));
      const shows = isHidden && stops.length ? before : isAgain ? "again" : own;
      if (stops.length && shows === before) stops.pop();
      stops.push(index + 1);
      before = shows;
      for (const item of shown) played.add(item);
    });
    return stops;
  }

  /**
   * The step with a number, counted from 1.
   *
   * @param {number} number
   * @returns {Step}
   */
  step(number) {
    return this.steps[number - 1];
  }

  /**
   * The items that show a step, closed boxes as well.
   *
   * @param {number} number
   */
  itemsAt(number) {
    return number < 1 ? [] : this.step(number).nodes.flatMap((node) => this.model.itemsOfNode.get(node) ?? []);
  }

  /**
   * How it stands with an item when a step is over: ``ran``, ``runs``, ``ready``, ``waits`` for more, ``partly``, ``ahead``,
   * or ``never`` for what backward does not run.
   *
   * @param {number} item
   * @param {number} at
   * @param {number} [since] the step at which the player stopped before: what has run after it runs now
   * @returns {State}
   */
  stateOf(item, at, since = at - 1) {
    const own = this.stepsOf.get(item);
    if (!own) return "never";
    if (own.some((number) => number > since && number <= at)) return "runs";
    const next = own.find((number) => number > at);
    if (next === undefined) return "ran";
    const { arrivals } = this.step(next);
    const come = arrivals.filter(({ step }) => step <= at).length;
    if (own[0] <= at) return "partly";
    return come === 0 ? "ahead" : come === arrivals.length ? "ready" : "waits";
  }

  /**
   * The gradients that an item gets for the step in which it runs next, or ran last; null where it never does.
   *
   * @param {number} item
   * @param {number} at
   * @returns {Gradients|null}
   */
  arrivalsAt(item, at) {
    const own = this.stepsOf.get(item) ?? [];
    const number = own.find((each) => each >= at) ?? own.at(-1);
    if (number === undefined) return null;
    const { arrivals, sums } = this.step(number);
    return { arrivals, sums, come: arrivals.filter(({ step }) => step <= at) };
  }

  /**
   * What flows back along a wire from one of `takers` to an item, when a step is over; empty where that is not one gradient.
   *
   * @param {number} item
   * @param {number[]} takers
   * @param {number} at
   */
  amountOn(item, takers, at) {
    const steps = new Set(takers.flatMap((taker) => this.stepsOf.get(taker) ?? (this.isRoot(taker) ? [0] : [])));
    const sent = (this.arrivalsAt(item, at)?.come ?? []).filter(({ step }) => steps.has(step));
    return sent.length === 1 ? sent[0].amount : "";
  }

  /** @param {number} item */
  isRoot(item) {
    return this.model.items[item].role === "root";
  }
}
