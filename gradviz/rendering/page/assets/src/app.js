/** The page at work: its state, and what every action changes. */
import { hashOf, stateOf } from "./address.js";
import { compose, rectOf, shift } from "./composition.js";
import { Connections } from "./connections.js";
import { placeOf } from "./data.js";
import { byId, h, isFramed } from "./dom.js";
import { listenToKeys, showHelp } from "./keys.js";
import { showLegend } from "./legend.js";
import { litBy, mark } from "./marking.js";
import { Minimap } from "./minimap.js";
import { Panel } from "./panel.js";
import { announce, say } from "./parts.js";
import { Picture } from "./picture.js";
import { besideOf, nearestOf } from "./places.js";
import { Player } from "./player.js";
import { listenToPicture } from "./pointing.js";
import { printWhole } from "./printing.js";
import { isWithin } from "./rects.js";
import { savePng, saveSvg } from "./saving.js";
import { Search } from "./search.js";
import { spoken } from "./shapes.js";
import { useTheme } from "./theme.js";
import { Tip } from "./tip.js";
import { listenToTools, offerTools } from "./toolbar.js";
import { Viewport } from "./viewport.js";

/** Unfolding all below stops before more than this would be drawn. */
const MOST_SHOWN = 3000;

export class App {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    this.model = model;
    this.viewport = new Viewport();
    this.picture = new Picture(model, () => this.viewport.seen, () => this.#mark());
    this.minimap = new Minimap(this.viewport);
    this.found = null;
    this.only = false;
    this.goal = null;
    this.isWayAsked = false;
    this.panel = new Panel(model, {
      toggle: (number) => this.toggle(number),
      unfoldAll: (number) => this.unfoldAll(number),
      showEach: (number) => this.showEach(number),
      askForWay: () => this.askForWay(true),
      reveal: (number) => this.reveal(number),
      only: () => this.showOnly(!this.only),
      select: (number) => this.goTo(number),
      save: (kind) => this.save(kind),
      graph: (place, tab) => this.showGraph(place, tab),
      light: (numbers, words) => this.lightUp(numbers, words),
    });
    this.player = new Player(model, {
      picture: this.picture,
      takersOf: (line) => this.connections.takersOf(line),
      onStep: (items) => this.#followStep(items),
      onEnd: () => this.#fillPanel(),
    });
    this.search = new Search(model, {
      isMeant: (number) => model.isCurrent(number),
      onFound: (numbers) => { this.found = numbers && new Set(numbers); this.#mark(); },
      onGo: (number) => this.goTo(number),
    });
  }

  async start() {
    await this.panel.prepare();
    const { document: facts } = this.model;
    document.title = `${facts.name} · gradviz`;
    useTheme(facts.theme, () => this.minimap.show(this.picture.scene));
    offerTools(this);
    this.state = stateOf(this.model, location.hash);
    this.#recolour();
    this.#show();
    this.viewport.fit(this.picture.scene, { isLegible: true, isMoved: false });
    if (this.state.selected !== null) this.reveal(this.state.selected);
    this.#listen();
    byId("picture").setAttribute("data-ready", "");
    (globalThis.requestIdleCallback ?? setTimeout)(() => this.search.prepare());
  }

  // -- what can be done ---------------------------------------------------------------------------------------------

  /** Opens a closed box, and closes an open one. */
  toggle(number) {
    if (!this.model.canOpen(number)) return;
    const open = this.model.openAs(number, this.state.opened);
    if (open === null) return this.#open([this.model.boxes.has(number) ? number : this.model.eachBox.get(number)], number);
    const opened = new Set(this.state.opened);
    opened.delete(open);
    return this.#change({ opened }, number);
  }

  /** Of a box that stands for several alike: shows each of them, or one for all. */
  showEach(number) {
    const each = this.model.eachBox.get(number);
    if (each === undefined) return;
    const { opened } = this.state;
    this.#open([opened.has(each) && this.model.boxes.has(number) ? number : each], number);
    this.search.again();
  }

  #open(boxes, anchor) {
    this.#change({ opened: this.model.withOpen(this.state.opened, boxes) }, anchor);
  }

  /** Opens a box and all in it; everything, for null. */
  unfoldAll(number) {
    const { opened } = this.state;
    const around = number === null ? [] : this.model.boxesAround(number);
    const within = this.model.boxesWithin(number);
    const more = [];
    let shown = this.picture.scene.items.size;
    for (const box of [...around, ...within]) {
      if (shown > MOST_SHOWN) {
        announce(`stopped at ${MOST_SHOWN.toLocaleString("en")} things`);
        break;
      }
      if (!opened.has(box)) shown += this.model.boxes.get(box).clusters.length;
      more.push(box);
    }
    this.#open(more, number ?? undefined);
  }

  /** Closes everything. */
  foldAll() {
    this.#change({ opened: new Set() });
    this.viewport.fit(this.picture.scene, { isLegible: true });
  }

  /** Opens what is around an item, selects it, and brings it into sight. */
  goTo(number) {
    const opened = this.model.withOpen(this.state.opened, this.model.boxesAround(number));
    this.#change({ opened, selected: number });
    this.reveal(this.state.selected);
  }

  /** Lights up several items, as if they had been searched for, and brings the first of them into sight. */
  lightUp(numbers, words) {
    this.search.show(words, numbers);
    this.#revealFirst(numbers);
  }

  select(number) {
    if (number === this.state.selected) return;
    this.goal = null;
    this.#change({ selected: number });
  }

  /** The shortest way between what is selected and another item lights up. */
  showWay(number) {
    this.askForWay(false);
    if (this.state.selected === null || number === this.state.selected) return this.select(number);
    this.goal = number;
    return this.#mark();
  }

  /** What is clicked next is the other end of a way; or no longer. */
  askForWay(isAsked) {
    this.isWayAsked = isAsked;
    byId("picture").classList.toggle("asking", isAsked);
    if (isAsked) announce("now click the other end");
  }

  /** Leaves what was begun last: a way, a selection, the backward pass. */
  leave() {
    if (this.isWayAsked) this.askForWay(false);
    else if (this.player.isOn && this.state.selected === null) this.play();
    else this.select(null);
  }

  showOnly(only) {
    this.only = only && this.state.selected !== null;
    this.#mark();
    this.#fillPanel();
  }

  reveal(number) {
    const rect = this.#rectOf(number);
    if (rect) this.viewport.reveal(rect, this.model.boxesAround(number).length);
  }

  fit() {
    this.viewport.fit(this.picture.scene);
  }

  /** Selects what an arrow key leads to: up to what the data came from, down to where it goes, aside on the same level. */
  follow(direction) {
    const { selected } = this.state;
    const next = selected === null ? [...this.picture.scene.items.keys()][0] ?? null : this.#nextOf(selected, direction);
    if (next === null) return undefined;
    this.select(next);
    if (this.picture.isCrowd) say(spoken(this.model.items[next]));
    this.reveal(next);
    return this.picture.elementOf(next)?.focus({ preventScroll: true });
  }

  #nextOf(number, direction) {
    const way = { up: "back", down: "onwards" }[direction];
    const { scene } = this.picture;
    return way
      ? nearestOf(this.model, scene, number, this.connections.neighbours(this.#ownItems(number), way))
      : besideOf(scene, number, direction);
  }

  /** Begins anew with another graph of the page; with the same colours. */
  showGraph(place, tab = "about") {
    const { colour } = this.state;
    location.hash = `graph=${place + 1}${colour === "role" ? "" : `&color=${colour}`}${tab === "about" ? "" : `&tab=${tab}`}`;
  }

  colourBy(colour) {
    this.#change({ colour });
  }

  weigh() {
    if ("gradient" in this.model.document.legends) this.#change({ isWeighed: !this.#isWeighed });
  }

  help() {
    showHelp();
  }

  /** @param {"svg"|"png"} kind */
  save(kind) {
    const name = this.model.document.name.split(/[\\/]/).at(-1).replace(/\.py\b.*/, "").replace(/[^\w.-]+/g, "_").slice(0, 80) || "graph";
    const area = this.#area;
    const putBack = this.picture.lendElements();
    try {
      (kind === "svg" ? saveSvg : savePng)(area, name);
    } finally {
      putBack();
    }
  }

  /** What can be saved and printed. */
  get #area() {
    return this.picture.isWhole ? this.picture.scene : this.viewport.seen;
  }

  /** Begins or ends playing the backward pass, where it can be played. */
  play() {
    if (!this.model.document.replay) return;
    if (this.player.isOn) this.player.close();
    else {
      if (this.state.selected !== null) this.select(null);
      const isAllSeen = isWithin(this.picture.scene, this.viewport.seen);
      this.player.open(); // Its bar takes room below.
      if (isAllSeen) this.fit();
    }
  }

  // -- how it is shown ----------------------------------------------------------------------------------------------

  #change(patch, anchor) {
    const before = this.state;
    this.state = { ...before, ...patch };
    if (this.state.selected !== null) {
      this.state.selected = this.model.shownFor(this.state.selected, this.state.opened);
    }
    if (before.selected !== this.state.selected) this.only = false;
    if (before.colour !== this.state.colour || before.isWeighed !== this.state.isWeighed) {
      this.#recolour();
      this.#showLegend();
    }
    if (before.opened !== this.state.opened) this.#show(anchor);
    else {
      this.#fillPanel();
      this.#mark();
    }
    const hash = `#${hashOf(this.model, this.state)}`;
    // In a frame, such as a notebook's, the address and the way back belong to the page around it.
    if (!isFramed && hash !== (location.hash || "#")) history.pushState(null, "", hash);
  }

  /** Shows the scene; where an item was clicked to open or close it, that stays where it is. */
  #show(anchor) {
    const was = anchor === undefined || !this.picture.scene ? null : this.#rectOf(anchor);
    this.model.opened = this.state.opened;
    const scene = compose(this.model, this.state.opened);
    const now = was && rectOf(scene, anchor);
    if (now) shift(scene, was.x + was.width / 2 - (now.x + now.width / 2), was.y - now.y);
    this.picture.show(scene);
    this.connections = new Connections(scene);
    this.minimap.show(scene);
    this.#showLegend();
    this.#fillPanel();
    this.#mark();
  }

  /** Whether wires are as wide as their gradients are large: as was asked for, or else where colours tell gradients. */
  get #isWeighed() {
    const { isWeighed, colour } = this.state;
    return "gradient" in this.model.document.legends && (isWeighed ?? colour === "gradient");
  }

  #recolour() {
    byId("stage").toggleAttribute("data-weighed", this.#isWeighed);
    byId("weigh").setAttribute("aria-pressed", this.#isWeighed);
    byId("colour").value = this.state.colour;
    this.picture.recolour(this.state.colour);
  }

  #showLegend() {
    showLegend(this.model, this.picture.scene, { colour: this.state.colour, isWeighed: this.#isWeighed });
  }

  /** Brings into sight what runs, and tells of it. */
  #followStep(items) {
    this.#revealFirst(items);
    this.#fillPanel();
  }

  /** The first that is shown, or the box that hides it. */
  #revealFirst(numbers) {
    const { opened } = this.state;
    const current = numbers.filter((number) => this.model.isCurrent(number));
    const shown = current.map((number) => this.model.shownFor(number, opened)).find((number) => this.#rectOf(number));
    if (shown !== undefined) this.reveal(shown);
  }

  #rectOf(number) {
    return rectOf(this.picture.scene, number);
  }

  /** An open box is what is shown in it. */
  #ownItems(number) {
    const { scene } = this.picture;
    if (scene.items.has(number)) return [number];
    return [...scene.items.keys()].filter((item) => this.model.boxesAround(item).some((box) => this.model.shownAs(box) === number));
  }

  #fillPanel() {
    const { selected, opened } = this.state;
    if (this.player.isOn && selected === null) {
      this.panel.fill(this.player.told());
      return this.#fillCrumbs();
    }
    const numbers = selected === null ? [] : this.#ownItems(selected);
    this.panel.show(selected, {
      from: this.connections.neighbours(numbers, "back"),
      to: this.connections.neighbours(numbers, "onwards"),
      isOpen: this.model.openAs(selected, opened) !== null,
      isEach: opened.has(this.model.eachBox.get(selected)),
      isOnly: this.only,
    });
    return this.#fillCrumbs();
  }

  #fillCrumbs() {
    const { selected } = this.state;
    const around = selected === null ? [] : [...this.model.boxesAround(selected), selected];
    const top = h("button", { type: "button", onclick: () => { this.select(null); this.fit(); } }, "graph");
    const steps = around.map((number) => h("button", { type: "button", onclick: () => this.goTo(number) }, this.model.items[number].title));
    byId("crumbs").replaceChildren(...[top, ...steps].map((step) => h("li", {}, step)));
  }

  #mark() {
    const { selected, opened } = this.state;
    const lit = selected === null ? null : litBy(this.connections, { selected, goal: this.goal, own: this.#ownItems(selected) });
    const matches = this.found && new Set([...this.found].map((number) => this.model.shownFor(number, opened)));
    mark(this.picture, { lit, matches, selected, goal: this.goal, only: this.only });
    this.player.mark();
  }

  // -- what is listened to ------------------------------------------------------------------------------------------

  #listen() {
    listenToPicture(this);
    this.tip = new Tip(this.model, {
      picture: this.picture,
      lineOf: (key) => this.picture.scene.lines.find((line) => line.key === key),
      colour: () => this.state.colour,
    });
    this.viewport.onChange(() => {
      this.tip.hide();
      this.picture.look();
    });
    printWhole({ area: () => this.#area, picture: this.picture });
    addEventListener("popstate", () => this.#follow());
    addEventListener("hashchange", () => this.#follow());
    listenToTools(this);
    listenToKeys(this);
  }

  /** What the address says, after going back or forward. */
  #follow() {
    if (placeOf(location.hash) !== this.model.document.place) return location.reload();
    const state = stateOf(this.model, location.hash);
    const isSame = hashOf(this.model, state) === hashOf(this.model, this.state);
    if (isSame) return undefined;
    this.state = state;
    this.#recolour();
    this.goal = null;
    this.only = false;
    this.#show(state.selected ?? undefined);
    if (state.selected !== null) this.reveal(state.selected);
    return undefined;
  }
}
