/**
 * Plays the backward pass: a slider and keys along its steps, and what is said of each.
 *
 * @import { Model } from "../graph/model.js"
 * @import { SceneLine } from "../layout/types.js"
 * @import { Picture } from "../picture/picture.js"
 * @import { State } from "./replay.js"
 *
 * @typedef {object} PlayedPage
 * @property {Picture} picture
 * @property {(line: SceneLine) => number[]} takersOf
 * @property {(items: number[]) => void} onStep
 * @property {() => void} onEnd
 */
import { factBody } from "../panel/formulas.js";
import { itemAt } from "../graph/connections.js";
import { byId, h, listenToButtons, partOf } from "../shared/dom.js";
import { counted } from "../shared/number-words.js";
import { addLabel, labelPosition, showGradient, sumWords } from "./gradient-labels.js";
import { Replay } from "./replay.js";

const PACE = 900;
/** Of a stop at which several operations run: so many of them, and of the things that show them, are named. */
const MAX_LISTED = 40;
const MAX_TITLES = 4;
/** The sum of what arrives stands on the lower edge of its item, below the numbers on that. */
const SUM_BELOW = 5;
const RUN = "M4 2l7 5-7 5z";
const PAUSE = "M4 2v10M10 2v10";
const STATES = ["ran", "runs", "ready", "waits", "partly", "ahead", "never"];
/** Items that have sent their gradients on, that know theirs, and that show the sum of what has arrived. */
const SENT = ["ran", "runs", "partly"];
const ARRIVED = ["ran", "runs", "ready"];
const SUMMED = ["waits", "ready", "runs"];
const WORDS = { runs: "runs now", ran: "has run", partly: "has run in part", ready: "has its gradient", waits: "waits for more of it", ahead: "to come" };

export class Player {
  /** @type {ReturnType<typeof setInterval>|undefined} */
  #timer;
  /** @type {Replay|null} made once it is played */
  #replay = null;
  /** @type {{opened: Set<number>, steps: number[]}|null} where it stops while these boxes are open */
  #stops = null;

  /**
   * @param {Model} model
   * @param {PlayedPage} page
   */
  constructor(model, page) {
    this.model = model;
    this.page = page;
    this.at = 0;
    this.isOn = false;
    listenToButtons({
      "play-first": () => this.go(0), "play-back": () => this.step(-1), "play-run": () => this.run(),
      "play-on": () => this.step(1), "play-close": () => this.close(),
    });
    byId("play-slider").addEventListener("input", () => this.#goToStop(Number(byId("play-slider").value)));
  }

  /** False where the backward pass has too many steps. */
  get canPlay() {
    return this.model.document.replay !== null;
  }

  get replay() {
    const { replay } = this.model.document;
    if (!replay) throw new Error("there is no backward pass to play");
    this.#replay ??= new Replay(this.model, replay);
    return this.#replay;
  }

  /** The steps at which it stops, as boxes are open now: the last one of each stop. */
  get stops() {
    const { opened } = this.model;
    if (this.#stops?.opened !== opened) this.#stops = { opened, steps: this.replay.stops(opened) };
    return this.#stops.steps;
  }

  /** Of the stops the one that it shows, counted from 1; 0 before the first one. */
  get #stop() {
    return this.at && this.stops.findIndex((step) => step >= this.at) + 1;
  }

  /** The last step of the stop before. */
  get #since() {
    return this.stops[this.#stop - 2] ?? 0;
  }

  /** @param {number} [at] the step that it shows first */
  open(at = this.at) {
    this.isOn = true;
    byId("play-bar").hidden = false;
    byId("play-legend").replaceChildren(...Object.entries(WORDS).map(([state, words]) => h("span", { class: `key ${state}` }, words)));
    this.go(at);
  }

  close() {
    this.run(false);
    this.isOn = false;
    byId("play-bar").hidden = true;
    byId("picture").classList.remove("playing");
    this.page.picture.words.replaceChildren();
    for (const element of this.page.picture.elementsOfItems().values()) {
      element.classList.remove(...STATES);
      showGradient(element, true);
    }
    for (const element of this.page.picture.elementsOfLines().values()) element.classList.remove("sent", "sends", "reaches");
    this.page.onEnd();
  }

  /** Step after step by itself, or no longer. */
  run(isRunning = this.#timer === undefined) {
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (isRunning && this.at === this.replay.length) this.go(0);
    if (isRunning) {
      this.#timer = setInterval(() => (this.at < this.replay.length ? this.step(1) : this.run(false)), PACE);
    }
    partOf(byId("play-run"), "path").setAttribute("d", isRunning ? PAUSE : RUN);
    partOf(byId("play-run"), ".words").textContent = isRunning ? "Pause" : "Play";
  }

  /** @param {number} by */
  step(by) {
    this.#goToStop(this.#stop + by);
  }

  /** @param {number} stop counted from 1; 0 for the beginning */
  #goToStop(stop) {
    this.go(stop < 1 ? 0 : this.stops[stop - 1] ?? Infinity);
  }

  /**
   * Shows how it stands when a step is over, and all others of the same stop.
   *
   * @param {number} at
   */
  go(at) {
    const wanted = Math.max(0, Math.min(this.replay.length, at));
    this.at = wanted && (this.stops.find((step) => step >= wanted) ?? this.replay.length);
    this.#showCount();
    this.page.onStep(this.#steps().flatMap((number) => this.replay.itemsAt(number)));
    this.mark();
  }

  #showCount() {
    byId("play-slider").max = String(this.stops.length);
    byId("play-slider").value = String(this.#stop);
    byId("play-count").textContent = `${this.#stop.toLocaleString("en")} of ${this.stops.length.toLocaleString("en")}`;
  }

  /** The steps of the stop that is shown. */
  #steps() {
    const since = this.#since;
    return Array.from({ length: this.at - (this.at && since) }, (_, index) => since + 1 + index);
  }

  /** Colours what is shown; also after boxes were opened or closed. */
  mark() {
    if (!this.isOn) return;
    this.#showCount();
    const { picture } = this.page;
    /** @type {Map<number, State>} */
    const states = new Map();
    for (const [number, element] of picture.elementsOfItems()) {
      const state = this.#stateOf(number);
      states.set(number, state);
      element.classList.remove(...STATES);
      element.classList.add(state);
      showGradient(element, ARRIVED.includes(state));
    }
    byId("picture").classList.add("playing");
    picture.words.replaceChildren();
    this.#markLines(states);
    this.#writeSums(states);
  }

  /**
   * @param {number} number
   * @returns {State}
   */
  #stateOf(number) {
    if (this.replay.isRoot(number)) return this.at ? "ran" : "runs";
    return this.replay.stateOf(number, this.at, this.at ? this.#since : undefined);
  }

  /** @param {Map<number, State>} states */
  #markLines(states) {
    const { picture } = this.page;
    for (const line of picture.scene.lines) {
      const element = picture.elementsOfLines().get(line.key);
      if (!element) continue;
      const isCarrying = !(line.isQuiet || this.model.items[line.source].role === "constant" || line.flow?.state === "ghost");
      const takers = isCarrying ? this.page.takersOf(line).map((taker) => ({ taker, state: states.get(taker) ?? "never" })) : [];
      const isSent = takers.some(({ state }) => SENT.includes(state));
      const sends = takers.some(({ state }) => state === "runs");
      element.classList.toggle("sent", isSent);
      element.classList.toggle("sends", sends);
      element.classList.toggle("reaches", itemAt(line.from) !== null);
      if (isSent) this.#writeAmount(line, takers.map(({ taker }) => taker), sends);
    }
  }

  /**
   * What flows along a wire, on the last of its stretches; norms only as long as they flow: more would be too many words.
   *
   * @param {SceneLine} line
   * @param {number[]} takers
   * @param {boolean} isNow
   */
  #writeAmount(line, takers, isNow) {
    const { picture } = this.page;
    const source = picture.scene.items.get(line.source);
    if (!source || itemAt(line.from) === null) return;
    const amount = this.replay.amountOn(line.source, takers, this.at);
    if (amount && (isNow || !amount.startsWith("norm"))) addLabel(picture.words, labelPosition(line.points, amount, source), amount, "amount");
  }

  /**
   * Where several gradients meet, as far as they have arrived.
   *
   * @param {Map<number, State>} states
   */
  #writeSums(states) {
    const { picture } = this.page;
    for (const [number, { x, y, width, height }] of picture.scene.items) {
      if (!picture.elementOf(number) || !SUMMED.includes(states.get(number) ?? "never") || this.model.canOpen(number)) continue;
      const gradients = this.replay.arrivalsAt(number, this.at);
      const words = gradients && gradients.arrivals.length > 1 ? sumWords(gradients) : "";
      if (words) addLabel(picture.words, { x: x + width / 2, y: y + height + SUM_BELOW }, words, "sum");
    }
  }

  /** What the panel says of a step. */
  told() {
    if (this.at === 0) {
      const order = this.replay.wasWatched ? [] : [h("p", { class: "quiet" }, "Nothing ran while it was recorded: this is the order that the engine would take.")];
      return [h("p", { class: "kind" }, "before the first step"), h("h2", { tabindex: -1 }, "backward begins"),
        h("ul", { class: "lines" }, this.replay.beginning.map((line) => h("li", {}, line))), ...order];
    }
    const steps = this.#steps();
    if (steps.length > 1) return this.#toldOfSeveral(steps);
    const { title, subtitle, facts } = this.replay.step(this.at);
    return [
      h("p", { class: "kind" }, `step ${this.#stop.toLocaleString("en")} of ${this.stops.length.toLocaleString("en")}`),
      h("h2", { tabindex: -1 }, title),
      h("p", { class: "subtitle" }, subtitle),
      ...facts.flatMap(({ heading, lines }) => [h("h3", {}, heading), factBody(heading, lines)]),
    ];
  }

  /**
   * What the panel says of a stop at which several operations run.
   *
   * @param {number[]} steps
   */
  #toldOfSeveral(steps) {
    const shown = new Set(steps.flatMap((number) => this.replay.itemsAt(number)).filter((item) => this.model.isCurrent(item))
      .map((item) => this.model.shownFor(item, this.model.opened)));
    const title = [...shown].map((item) => this.model.items[item].title);
    const rows = steps.slice(0, MAX_LISTED).map((number) => {
      const { title: name, subtitle, sums, arrivals } = this.replay.step(number);
      const amounts = sums.filter(Boolean).join(", ") || (arrivals.length === 1 ? arrivals[0].amount : "");
      return h("li", {}, h("b", {}, name), h("span", { class: "quiet" }, [subtitle, amounts].filter(Boolean).map((words) => ` · ${words}`).join("")));
    });
    const more = steps.length - rows.length;
    return [
      h("p", { class: "kind" }, `step ${this.#stop.toLocaleString("en")} of ${this.stops.length.toLocaleString("en")}: ${counted(steps.length, "node")}`),
      h("h2", { tabindex: -1 }, title.slice(0, MAX_TITLES).join(", "), title.length > MAX_TITLES ? " …" : ""),
      h("h3", {}, "in this order, with the gradient that arrived"),
      h("ol", { class: "steps" }, rows),
      more ? h("p", { class: "quiet" }, `and ${more.toLocaleString("en")} more`) : null,
    ];
  }
}
