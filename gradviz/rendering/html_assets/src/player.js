/** Plays the backward pass: a slider and keys along its steps, and what is said of each. */
import { byId, h } from "./dom.js";
import { Replay } from "./replay.js";

const PACE = 900;
const RUN = "M4 2l7 5-7 5z";
const PAUSE = "M4 2v10M10 2v10";
const STATES = ["ran", "runs", "ready", "waits", "partly", "ahead", "never"];
const WORDS = { runs: "runs now", ran: "has run", partly: "has run in part", ready: "has its gradient", waits: "waits for more of it", ahead: "to come" };

export class Player {
  #timer = 0;

  /**
   * @param {import("./model.js").Model} model
   * @param {{picture: object, takersOf: (line: object) => number[], onStep: (items: number[]) => void, onEnd: () => void}} page
   */
  constructor(model, page) {
    this.model = model;
    this.page = page;
    this.at = 0;
    this.isOn = false;
    this.replay = null;
    const actions = { "play-first": () => this.go(0), "play-back": () => this.step(-1), "play-run": () => this.run(),
      "play-on": () => this.step(1), "play-close": () => this.close() };
    for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
    byId("play-slider").addEventListener("input", (event) => this.go(Number(event.target.value)));
  }

  open() {
    this.replay ??= new Replay(this.model);
    this.isOn = true;
    byId("play-bar").hidden = false;
    byId("play-slider").max = this.replay.length;
    byId("play-legend").replaceChildren(...Object.entries(WORDS).map(([state, words]) => h("span", { class: `key ${state}` }, words)));
    this.go(this.at);
  }

  close() {
    this.run(false);
    this.isOn = false;
    byId("play-bar").hidden = true;
    byId("picture").classList.remove("playing");
    for (const element of this.page.picture.elementsOfItems().values()) element.classList.remove(...STATES);
    for (const element of this.page.picture.elementsOfLines().values()) element.classList.remove("sent", "sends");
    this.page.onEnd();
  }

  /** Step after step by itself, or no longer. */
  run(isRunning = !this.#timer) {
    clearInterval(this.#timer);
    this.#timer = 0;
    if (isRunning && this.at === this.replay.length) this.go(0);
    if (isRunning) {
      this.#timer = setInterval(() => (this.at < this.replay.length ? this.step(1) : this.run(false)), PACE);
    }
    byId("play-run").querySelector("path").setAttribute("d", isRunning ? PAUSE : RUN);
    byId("play-run").setAttribute("aria-label", isRunning ? "pause" : "play");
  }

  step(by) {
    this.go(this.at + by);
  }

  /** Shows how it stands when a step is over. */
  go(at) {
    this.at = Math.max(0, Math.min(this.replay.length, at));
    byId("play-slider").value = this.at;
    byId("play-count").textContent = `${this.at.toLocaleString("en")} of ${this.replay.length.toLocaleString("en")}`;
    this.page.onStep(this.replay.itemsAt(this.at));
    this.mark();
  }

  /** Colours what is shown; also after boxes were opened or closed. */
  mark() {
    if (!this.isOn) return;
    const { picture } = this.page;
    const states = new Map();
    for (const [number, element] of picture.elementsOfItems()) {
      const isRoot = this.model.items[number].role === "root";
      const state = isRoot ? (this.at ? "ran" : "runs") : this.replay.stateOf(number, this.at);
      states.set(number, state);
      element.classList.remove(...STATES);
      element.classList.add(state);
    }
    byId("picture").classList.add("playing");
    for (const line of picture.scene.lines) {
      const element = picture.elementsOfLines().get(line.key);
      if (!element) continue;
      const isCarrying = !(line.isQuiet || this.model.items[line.source].role === "constant" || line.flow?.state === "ghost");
      const through = isCarrying ? this.page.takersOf(line) : [];
      element.classList.toggle("sent", through.some((taker) => ["ran", "runs", "partly"].includes(states.get(taker))));
      element.classList.toggle("sends", through.some((taker) => states.get(taker) === "runs"));
    }
  }

  /** What the panel says of a step. */
  told() {
    if (this.at === 0) {
      const order = this.replay.wasWatched ? [] : [h("p", { class: "quiet" }, "Nothing ran while it was recorded: this is the order that the engine would take.")];
      return [h("p", { class: "kind" }, "before the first step"), h("h2", { tabindex: -1 }, "backward begins"),
        h("ul", { class: "lines" }, this.replay.beginning.map((line) => h("li", {}, line))), ...order];
    }
    const { title, subtitle, facts } = this.replay.step(this.at);
    return [
      h("p", { class: "kind" }, `step ${this.at.toLocaleString("en")} of ${this.replay.length.toLocaleString("en")}`),
      h("h2", { tabindex: -1 }, title),
      h("p", { class: "subtitle" }, subtitle),
      ...facts.flatMap(({ heading, lines }) => [h("h3", {}, heading), h("pre", { class: "fact" }, lines.join("\n"))]),
    ];
  }
}
