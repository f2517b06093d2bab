/**
 * The page at work: its state, and what every action changes.
 *
 * @import { Model } from "../graph/model.js"
 * @import { View } from "./address.js"
 */
import { graphIndexOf } from "../document/read-document.js";
import { MAX_SHOWN, toggled, withAllInside, withEachToggled } from "../graph/folding.js";
import { Panel } from "../panel/panel.js";
import { listenToPicture } from "../picture/clicks.js";
import { litBy, mark } from "../picture/highlight.js";
import { showLegend } from "../picture/legend.js";
import { printWhole } from "../picture/print.js";
import { Stage } from "../picture/stage.js";
import { spoken } from "../picture/svg-elements.js";
import { Tooltip } from "../picture/tooltip.js";
import { Player } from "../player/player.js";
import { SearchField } from "../search/search-field.js";
import { announce, say } from "../shared/announce.js";
import { byId } from "../shared/dom.js";
import { isFramed } from "../shared/framed.js";
import { hashOf, hashOfGraph, viewOf } from "./address.js";
import { nextStop } from "./next-stop.js";
import { showBreadcrumbs } from "./breadcrumbs.js";
import { listenToHelp, showHelp } from "./help-dialog.js";
import { KEYS, listenToKeys } from "./keyboard.js";
import { useTheme } from "./theme.js";
import { listenToTools, offerTools } from "./toolbar.js";

export class App {
  /** @type {Set<number>|null} what was searched for */
  #found = null;
  /** @type {number|null} the other end of a way */
  #goal = null;

  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.state = viewOf(model, location.hash);
    this.stage = new Stage(model, () => this.#mark());
    this.only = false;
    this.isWayAsked = false;
    this.panel = new Panel(model, {
      toggle: (number) => this.toggle(number),
      unfoldAll: (number) => this.unfoldAll(number),
      showEach: (number) => this.showEach(number),
      askForWay: () => this.askForWay(true),
      reveal: (number) => this.reveal(number),
      only: () => this.showOnly(!this.only),
      select: (number) => this.goTo(number),
      save: (kind) => this.stage.save(kind),
      graph: (index, tab) => this.showGraph(index, tab),
      light: (numbers, words) => this.lightUp(numbers, words),
    });
    this.player = new Player(model, {
      picture: this.stage.picture,
      takersOf: (line) => this.stage.connections.takersOf(line),
      onStep: (items) => this.#followStep(items),
      onEnd: () => this.#fillPanel(),
    });
    this.search = new SearchField(model, {
      isMeant: (number) => model.isCurrent(number),
      onFound: (numbers) => { this.#found = numbers && new Set(numbers); this.#mark(); },
      onGo: (number) => this.goTo(number),
    });
  }

  async start() {
    await this.panel.prepare();
    const { document: facts } = this.model;
    document.title = `${facts.name} · gradviz`;
    useTheme(facts.theme, () => this.stage.repaintMinimap());
    offerTools(this);
    this.state = viewOf(this.model, location.hash); // It may have changed while something was unpacked.
    if (!location.hash) this.#selectFirstDifference();
    this.#recolour();
    this.#show();
    this.stage.fit({ isLegible: true, isMoved: false });
    if (this.state.selected !== null) this.reveal(this.state.selected);
    this.#listen();
    byId("picture").setAttribute("data-ready", "");
    const later = globalThis.requestIdleCallback ?? setTimeout;
    later(() => this.search.prepare());
  }

  #selectFirstDifference() {
    const { stops = [] } = this.model.document.difference ?? {};
    const first = stops.find((stop) => stop.is_first) ?? stops[0];
    if (!first) return;
    const opened = this.model.withOpen(this.state.opened, this.model.boxesAround(first.item));
    this.state = { ...this.state, opened, selected: first.item };
  }

  // -- what is open -------------------------------------------------------------------------------------------------

  /**
   * Opens a closed box, and closes an open one.
   *
   * @param {number} number
   */
  toggle(number) {
    const opened = toggled(this.model, this.state.opened, number);
    if (opened) this.#change({ opened }, number);
  }

  /**
   * Of a box that stands for several alike: shows each of them, or one for all.
   *
   * @param {number} number
   */
  showEach(number) {
    const opened = withEachToggled(this.model, this.state.opened, number);
    if (!opened) return;
    this.#change({ opened }, number);
    this.search.again();
  }

  /**
   * Opens a box and all in it; everything, for null.
   *
   * @param {number|null} number
   */
  unfoldAll(number) {
    const { opened, isAll } = withAllInside(this.model, this.state.opened, number, this.stage.scene.items.size);
    if (!isAll) announce(`stopped at ${MAX_SHOWN.toLocaleString("en")} things`);
    this.#change({ opened }, number);
  }

  /** Closes everything. */
  foldAll() {
    this.#change({ opened: new Set() });
    this.stage.fit({ isLegible: true });
  }

  // -- what is selected, found and seen -----------------------------------------------------------------------------

  /**
   * Opens what is around an item, selects it, and brings it into sight.
   *
   * @param {number} number
   */
  goTo(number) {
    const opened = this.model.withOpen(this.state.opened, this.model.boxesAround(number));
    this.#change({ opened, selected: number });
    if (this.state.selected !== null) this.reveal(this.state.selected);
  }

  /**
   * Lights up several items, as if they had been searched for, and brings the first of them into sight.
   *
   * @param {number[]} numbers
   * @param {string} words
   */
  lightUp(numbers, words) {
    this.search.show(words, numbers);
    this.stage.revealFirst(numbers, this.state.opened);
  }

  /** @param {number|null} number */
  select(number) {
    if (number === this.state.selected) return;
    this.#goal = null;
    this.#change({ selected: number });
  }

  /**
   * The shortest way between what is selected and another item lights up.
   *
   * @param {number} number
   */
  showWay(number) {
    this.askForWay(false);
    if (this.state.selected === null || number === this.state.selected) this.select(number);
    else {
      this.#goal = number;
      this.#mark();
    }
  }

  /**
   * What is clicked next is the other end of a way; or no longer.
   *
   * @param {boolean} isAsked
   */
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

  /** @param {boolean} only what is joined to what is selected */
  showOnly(only) {
    this.only = only && this.state.selected !== null;
    this.#mark();
    this.#fillPanel();
  }

  /** @param {number} number */
  reveal(number) {
    this.stage.reveal(number);
  }

  fit() {
    this.stage.fit();
  }

  /**
   * Selects what an arrow key leads to: up to what the data came from, down to where it goes, aside on the same level.
   *
   * @param {"up"|"down"|"left"|"right"} direction
   */
  follow(direction) {
    const next = this.stage.nextOf(this.state.selected, direction);
    if (next === null) return;
    this.select(next);
    if (this.stage.picture.isPainted) say(spoken(this.model.items[next]));
    this.reveal(next);
    this.stage.picture.elementOf(next)?.focus({ preventScroll: true });
  }

  // -- colours, other graphs, help, the backward pass ---------------------------------------------------------------

  /**
   * Begins anew with another graph of the page; with the same colours.
   *
   * @param {number} index
   * @param {string} tab of the panel
   */
  showGraph(index, tab = "about") {
    location.hash = hashOfGraph(index, this.state.colour === this.model.firstColour ? null : this.state.colour, tab);
  }

  /** @param {string} colour */
  colourBy(colour) {
    this.#change({ colour });
  }

  /** Whether wires can be as wide as their gradients are large. */
  get canWeigh() {
    return "gradient" in this.model.document.legends;
  }

  weigh() {
    if (this.canWeigh) this.#change({ isWeighed: !this.#isWeighed });
  }

  help() {
    showHelp(KEYS.filter(({ isOffered }) => isOffered?.(this) ?? true));
  }

  /** Whether there are differences between two runs to go to. */
  get canJump() {
    return Boolean(this.model.document.difference?.stops.length);
  }

  /**
   * Goes to a difference between two runs, from what is selected, and says which of them it is.
   *
   * @param {1|-1} step
   */
  nextDifference(step) {
    const stops = this.model.document.difference?.stops ?? [];
    if (!stops.length) return;
    const at = nextStop(stops.map(({ item }) => item), this.state.selected, step);
    this.goTo(stops[at].item);
    const { words, reason } = stops[at];
    announce(`difference ${at + 1} of ${stops.length}: ${[words, reason].filter(Boolean).join(" · ")}`);
  }

  /** Begins or ends playing the backward pass, where it can be played. */
  play() {
    if (!this.player.canPlay) return;
    if (this.player.isOn) this.player.close();
    else {
      if (this.state.selected !== null) this.select(null);
      const { isAllSeen } = this.stage;
      this.player.open(); // Its bar takes room below.
      if (isAllSeen) this.fit();
    }
  }

  // -- how it is shown ----------------------------------------------------------------------------------------------

  /**
   * @param {Partial<View>} patch
   * @param {number|null} [anchor] what stays where it is
   */
  #change(patch, anchor = null) {
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

  /**
   * Shows the scene; where an item was clicked to open or close it, that stays where it is.
   *
   * @param {number|null} anchor
   */
  #show(anchor = null) {
    this.model.opened = this.state.opened;
    this.stage.show(this.state.opened, anchor);
    this.#showLegend();
    this.#fillPanel();
    this.#mark();
  }

  /** Whether wires are as wide as their gradients are large: as was asked for, or else where colours tell gradients. */
  get #isWeighed() {
    const { isWeighed, colour } = this.state;
    return this.canWeigh && (isWeighed ?? colour === "gradient");
  }

  #recolour() {
    byId("stage").toggleAttribute("data-weighed", this.#isWeighed);
    byId("weigh").setAttribute("aria-pressed", String(this.#isWeighed));
    byId("colour").value = this.state.colour;
    this.stage.picture.recolour(this.state.colour);
  }

  #showLegend() {
    showLegend(this.model, this.stage.scene, { colour: this.state.colour, isWeighed: this.#isWeighed });
  }

  /**
   * Brings into sight what runs, and tells of it.
   *
   * @param {number[]} items
   */
  #followStep(items) {
    this.stage.revealFirst(items, this.state.opened);
    this.#fillPanel();
  }

  #fillPanel() {
    const { selected } = this.state;
    if (this.player.isOn && selected === null) this.panel.fill(this.player.told());
    else this.panel.show(selected, this.#surroundings(selected));
    showBreadcrumbs(this.model, selected, { top: () => { this.select(null); this.fit(); }, go: (number) => this.goTo(number) });
  }

  /** @param {number|null} selected */
  #surroundings(selected) {
    const { opened } = this.state;
    const numbers = selected === null ? [] : this.stage.ownItems(selected);
    return {
      from: this.stage.connections.neighbours(numbers, "back"),
      to: this.stage.connections.neighbours(numbers, "onwards"),
      isOpen: selected !== null && this.model.openAs(selected, opened) !== null,
      isEach: selected !== null && this.model.showsEach(selected, opened),
      isOnly: this.only,
    };
  }

  #mark() {
    const { selected, opened } = this.state;
    const lit = selected === null ? null : litBy(this.stage.connections, { selected, goal: this.#goal, own: this.stage.ownItems(selected) });
    const matches = this.#found && new Set([...this.#found].map((number) => this.model.shownFor(number, opened)));
    mark(this.stage.picture, { lit, matches, selected, goal: this.#goal, only: this.only });
    this.player.mark();
  }

  // -- what is listened to ------------------------------------------------------------------------------------------

  #listen() {
    listenToPicture(this);
    const { picture, viewport } = this.stage;
    const tooltip = new Tooltip(this.model, {
      picture,
      lineOf: (key) => picture.scene.lines.find((line) => line.key === key),
      colour: () => this.state.colour,
    });
    viewport.onChange(() => {
      tooltip.hide();
      picture.look();
    });
    printWhole({ area: () => this.stage.area, picture });
    addEventListener("popstate", () => this.#follow());
    addEventListener("hashchange", () => this.#follow());
    listenToTools(this);
    listenToKeys(this);
    listenToHelp();
  }

  /** What the address says, after going back or forward. */
  #follow() {
    if (graphIndexOf(location.hash) !== this.model.document.index) {
      location.reload();
      return;
    }
    const state = viewOf(this.model, location.hash);
    if (hashOf(this.model, state) === hashOf(this.model, this.state)) return;
    this.state = state;
    this.#recolour();
    this.#goal = null;
    this.only = false;
    this.#show(state.selected);
    if (state.selected !== null) this.reveal(state.selected);
  }
}
