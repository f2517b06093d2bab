/** The page at work: its state, and what every action changes. */
import { hashOf, stateOf } from "./address.js";
import { compose } from "./composition.js";
import { Connections } from "./connections.js";
import { byId, h } from "./dom.js";
import { listenToKeys, showHelp } from "./keys.js";
import { showLegend } from "./legend.js";
import { Minimap } from "./minimap.js";
import { announce, itemButton, Panel } from "./panel.js";
import { Picture } from "./picture.js";
import { Player } from "./player.js";
import { savePng, saveSvg } from "./saving.js";
import { Search } from "./search.js";
import { nextTheme, useTheme } from "./theme.js";
import { Viewport } from "./viewport.js";

const TIP_DELAY = 350;
const MOST_SHOWN = 3000;
/** Unfolding all below stops before more than this would be drawn. */
const COLOURS = { role: "what it is", gradient: "gradient", memory: "memory", time: "time", module: "module" };

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
    this.panel = new Panel(model, {
      toggle: (number) => this.toggle(number),
      unfoldAll: (number) => this.unfoldAll(number),
      reveal: (number) => this.reveal(number),
      only: () => this.showOnly(!this.only),
      select: (number) => this.goTo(number),
      save: (kind) => this.save(kind),
      light: (numbers, line) => this.lightUp(numbers, line),
    });
    this.player = new Player(model, {
      picture: this.picture,
      takers: () => (line) => this.connections.takersOf(line),
      onStep: (items) => this.#followStep(items),
      onEnd: () => this.#fillPanel(),
    });
    this.search = new Search(model, {
      onFound: (numbers) => { this.found = numbers && new Set(numbers); this.#mark(); },
      onGo: (number) => this.goTo(number),
    });
  }

  start() {
    const { document: facts } = this.model;
    document.title = `${facts.name} · gradviz`;
    byId("name").textContent = facts.name;
    byId("facts").textContent = facts.facts;
    useTheme(facts.theme, () => this.minimap.show(this.picture.scene));
    this.#offerColours();
    byId("play").hidden = !facts.replay;
    this.state = stateOf(this.model, location.hash);
    this.#show();
    this.viewport.fit(this.#whole(), { isLegible: true, isMoved: false });
    if (this.state.selected !== null) this.reveal(this.state.selected);
    this.#listen();
    byId("picture").setAttribute("data-ready", "");
    (globalThis.requestIdleCallback ?? setTimeout)(() => this.search.prepare());
  }

  // -- what can be done ---------------------------------------------------------------------------------------------

  /** Opens a closed box, and closes an open one. */
  toggle(number) {
    if (!this.model.canOpen(number)) return;
    const opened = new Set(this.state.opened);
    if (!opened.delete(number)) opened.add(number);
    this.#change({ opened }, number);
  }

  unfoldAll(number) {
    const opened = new Set(this.state.opened);
    const around = number === null ? [] : this.model.boxesAround(number);
    const within = this.model.boxesWithin(number);
    let shown = this.picture.scene.items.size;
    for (const box of [...around, ...within]) {
      if (shown > MOST_SHOWN) {
        announce(`stopped at ${MOST_SHOWN.toLocaleString("en")} things`);
        break;
      }
      if (!opened.has(box)) shown += this.model.boxes.get(box).clusters.length;
      opened.add(box);
    }
    this.#change({ opened }, number ?? undefined);
  }

  /** Closes a box and all in it, so that it opens as it was at first. */
  foldAll() {
    this.#change({ opened: new Set() });
    this.viewport.fit(this.#whole(), { isLegible: true });
  }

  /** Opens what is around an item, selects it, and brings it into sight. */
  goTo(number) {
    const around = this.model.boxesAround(number);
    const opened = new Set([...this.state.opened, ...around]);
    this.#change({ opened, selected: number }, undefined);
    this.reveal(number);
  }

  /** Lights up what a source line made, and brings the first of it into sight. */
  lightUp(numbers, line) {
    this.search.show(`line:${line}`, numbers);
    const first = numbers.map((number) => this.model.shownFor(number, this.state.opened)).find((number) => this.#rectOf(number));
    if (first !== undefined) this.reveal(first);
  }

  select(number) {
    if (number === this.state.selected) return;
    this.goal = null;
    this.#change({ selected: number });
  }

  /** The shortest way between what is selected and another item lights up. */
  showWay(number) {
    if (this.state.selected === null || number === this.state.selected) return this.select(number);
    this.goal = number;
    return this.#mark();
  }

  showOnly(only) {
    this.only = only && this.state.selected !== null;
    this.#mark();
    this.#fillPanel();
  }

  reveal(number) {
    const rect = this.#rectOf(number);
    if (rect) this.viewport.reveal(rect);
  }

  fit() {
    this.viewport.fit(this.#whole());
  }

  /** Selects what an arrow key leads to: up to what the data came from, down to where it goes, aside on the same level. */
  follow(direction) {
    const { selected } = this.state;
    if (selected === null) return this.select([...this.picture.scene.items.keys()][0] ?? null);
    const numbers = this.#ownItems(selected);
    const way = { up: "back", down: "onwards" }[direction];
    const next = way
      ? this.#nearest(selected, this.connections.neighbours(numbers, way))
      : this.#beside(selected, direction);
    if (next === null || next === undefined) return undefined;
    this.select(next);
    this.reveal(next);
    return this.picture.elementOf(next)?.focus({ preventScroll: true });
  }

  colourBy(colour) {
    this.#change({ colour });
  }

  help() {
    showHelp();
  }

  /** @param {"svg"|"png"} kind */
  save(kind) {
    const name = this.model.document.name.split(/[\\/]/).at(-1).replace(/\.py\b.*/, "").replace(/[^\w.-]+/g, "_").slice(0, 80) || "graph";
    const area = this.picture.isWhole ? this.#whole() : this.viewport.seen;
    (kind === "svg" ? saveSvg : savePng)(area, name);
  }

  /** Begins or ends playing the backward pass, where it can be played. */
  play() {
    if (!this.model.document.replay) return;
    if (this.player.isOn) this.player.close();
    else {
      if (this.state.selected !== null) this.select(null);
      this.player.open();
    }
  }

  // -- how it is shown ----------------------------------------------------------------------------------------------

  #change(patch, anchor) {
    const before = this.state;
    this.state = { ...before, ...patch };
    if (this.state.selected !== null) {
      this.state.selected = this.model.shownFor(this.state.selected, this.state.opened);
    }
    if (before.colour !== this.state.colour) this.picture.recolour(this.state.colour);
    if (before.opened !== this.state.opened) this.#show(anchor);
    else {
      this.#mark();
      if (before.colour !== this.state.colour) showLegend(this.model, this.picture.scene, this.state.colour);
    }
    if (before.selected !== this.state.selected) this.only = false;
    this.#fillPanel();
    this.#mark();
    const hash = `#${hashOf(this.model, this.state)}`;
    if (hash !== (location.hash || "#")) history.pushState(null, "", hash);
  }

  /** Shows the scene; where an item was clicked to open or close it, that stays where it is. */
  #show(anchor) {
    const was = anchor === undefined || !this.picture.scene ? null : this.#rectOf(anchor);
    const scene = compose(this.model, this.state.opened);
    if (was) this.#shift(scene, anchor, was);
    byId("stage").dataset.color = this.state.colour;
    this.picture.colour = this.state.colour;
    this.picture.show(scene);
    this.connections = new Connections(scene);
    this.minimap.show(scene);
    showLegend(this.model, scene, this.state.colour);
    this.#fillPanel();
    this.#mark();
  }

  /** Moves the view with what was clicked: its upper edge and the middle of it stay. */
  #shift(scene, anchor, was) {
    const now = scene.items.get(anchor) ?? scene.open.get(anchor);
    if (!now) return;
    const x = was.x + was.width / 2 - (now.x + now.width / 2);
    const y = was.y - now.y;
    scene.items.forEach((rect) => { rect.x += x; rect.y += y; });
    scene.open.forEach((rect) => { rect.x += x; rect.y += y; });
    scene.lines.forEach((line) => line.points.forEach((point) => { point.x += x; point.y += y; }));
    scene.x = x;
    scene.y = y;
  }

  /** Brings into sight what runs, where it is folded away the box that hides it. */
  #followStep(items) {
    const shown = items.map((item) => this.model.shownFor(item, this.state.opened)).filter((item) => this.#rectOf(item));
    if (shown.length) this.viewport.reveal(this.#rectOf(shown[0]));
    this.#fillPanel();
  }

  #whole() {
    const { scene } = this.picture;
    return { x: scene.x ?? 0, y: scene.y ?? 0, width: scene.width, height: scene.height };
  }

  #rectOf(number) {
    const { scene } = this.picture;
    return scene.items.get(number) ?? scene.open.get(number) ?? null;
  }

  /** An open box is what is shown in it. */
  #ownItems(number) {
    const { scene } = this.picture;
    if (scene.items.has(number)) return [number];
    return [...scene.items.keys()].filter((item) => this.model.boxesAround(item).includes(number));
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
      isOpen: opened.has(selected),
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

  /** Lights up what belongs to what is selected or found, and dims the rest. */
  #mark() {
    const { selected } = this.state;
    const svg = byId("picture");
    const lit = this.#lit();
    svg.classList.toggle("marked", Boolean(lit) || Boolean(this.found?.size));
    svg.classList.toggle("only", this.only);
    const matches = this.found && new Set([...this.found].map((number) => this.model.shownFor(number, this.state.opened)));
    for (const [number, element] of this.picture.elementsOfItems()) {
      const isOpen = this.state.opened.has(number) && this.picture.scene.open.has(number);
      element.classList.toggle("selected", number === selected || number === this.goal);
      element.classList.toggle("lit-from", Boolean(lit?.from.items.has(number)));
      element.classList.toggle("lit-to", Boolean(lit?.to.items.has(number)));
      element.classList.toggle("match", Boolean(matches?.has(number)) && !isOpen);
      element.setAttribute("tabindex", number === selected ? 0 : -1);
    }
    for (const [key, element] of this.picture.elementsOfLines()) {
      element.classList.toggle("lit-from", Boolean(lit?.from.lines.has(key)));
      element.classList.toggle("lit-to", Boolean(lit?.to.lines.has(key)));
    }
    this.player.mark();
    if (selected === null) svg.querySelector(".item")?.setAttribute("tabindex", 0);
  }

  #lit() {
    const { selected } = this.state;
    if (selected === null) return null;
    if (this.goal !== null) {
      const nothing = { items: new Set(), lines: new Set() };
      const down = this.connections.way(selected, this.goal);
      const up = down ? null : this.connections.way(this.goal, selected);
      if (!down && !up) announce("no data flows between the two");
      return { from: up ?? nothing, to: down ?? nothing };
    }
    const numbers = this.#ownItems(selected);
    const from = this.connections.reached(numbers, "back");
    const to = this.connections.reached(numbers, "onwards");
    if (!this.picture.scene.items.has(selected)) for (const number of numbers) from.items.add(number);
    return { from, to };
  }

  #nearest(number, others) {
    const own = this.#rectOf(number);
    const middle = (rect) => rect.x + rect.width / 2;
    const away = (other) => Math.hypot(middle(this.#rectOf(other)) - middle(own), this.#rectOf(other).y - own.y);
    const isLeaf = (other) => (this.model.items[other].is_leaf ? 1 : 0);
    return others.sort((one, other) => isLeaf(one) - isLeaf(other) || away(one) - away(other))[0] ?? null;
  }

  /** The nearest item at the left or right, within about the same height. */
  #beside(number, direction) {
    const own = this.#rectOf(number);
    const sign = direction === "left" ? -1 : 1;
    let best = null;
    let least = Infinity;
    for (const [other, rect] of this.picture.scene.items) {
      const across = (rect.x + rect.width / 2 - own.x - own.width / 2) * sign;
      const down = Math.abs(rect.y + rect.height / 2 - own.y - own.height / 2);
      if (other === number || across < 8 || down > own.height / 2 + 40) continue;
      if (across + 3 * down < least) [best, least] = [other, across + 3 * down];
    }
    return best;
  }

  // -- what is listened to ------------------------------------------------------------------------------------------

  #offerColours() {
    const available = ["role", ...Object.keys(this.model.document.legends)];
    byId("colour").append(...available.map((by) => h("option", { value: by }, COLOURS[by])));
    byId("colour").value = this.model.document.color_by;
    byId("colour").addEventListener("change", (event) => this.colourBy(event.target.value));
  }

  #listen() {
    const svg = byId("picture");
    svg.addEventListener("click", (event) => this.#click(event));
    svg.addEventListener("dblclick", (event) => {
      const number = numberAt(event);
      if (number !== null && this.model.canOpen(number)) this.toggle(number);
    });
    svg.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      const number = numberAt(event);
      if (number === null) return;
      event.preventDefault();
      if (number === this.state.selected) this.toggle(number);
      else this.select(number);
    });
    svg.addEventListener("pointerover", (event) => this.#hover(event));
    for (const leaving of ["pointerleave", "pointerdown"]) svg.addEventListener(leaving, () => this.#hideTip());
    this.viewport.onChange(() => {
      this.#hideTip();
      this.picture.look();
    });
    addEventListener("popstate", () => this.#follow());
    addEventListener("hashchange", () => this.#follow());
    const buttons = {
      "zoom-in": () => this.viewport.zoomBy(1.3), "zoom-out": () => this.viewport.zoomBy(1 / 1.3), fit: () => this.fit(),
      "unfold-all": () => { this.unfoldAll(null); this.viewport.fit(this.#whole(), { isLegible: true }); },
      "fold-all": () => this.foldAll(),
      theme: () => { announce(`theme: ${nextTheme()}`); this.minimap.show(this.picture.scene); },
      help: () => this.help(),
      play: () => this.play(),
      "panel-toggle": () => document.body.classList.toggle("no-panel"),
    };
    for (const [id, action] of Object.entries(buttons)) byId(id).addEventListener("click", action);
    listenToKeys(this);
  }

  /** What the address says, after going back or forward. */
  #follow() {
    const state = stateOf(this.model, location.hash);
    const isSame = hashOf(this.model, state) === hashOf(this.model, this.state);
    if (isSame) return;
    if (state.colour !== this.state.colour) this.picture.recolour(state.colour);
    byId("colour").value = state.colour;
    this.state = state;
    this.goal = null;
    this.only = false;
    this.#show(state.selected ?? undefined);
    if (state.selected !== null) this.reveal(state.selected);
  }

  #click(event) {
    const number = numberAt(event);
    if (number === null) return this.select(null);
    if (event.target.closest(".toggle")) return this.toggle(number);
    return event.shiftKey ? this.showWay(number) : this.select(number);
  }

  /** Words beside the pointer, once it rests. */
  #hover(event) {
    this.#hideTip();
    const number = numberAt(event);
    const key = event.target.closest("[data-line]")?.dataset.line;
    const line = key && this.picture.scene.lines.find((each) => each.key === key);
    if (event.buttons || (number === null && !line)) return;
    this.tipTimer = setTimeout(() => {
      const words = number === null ? this.#wordsOfLine(line) : this.#wordsOfItem(number);
      this.#showTip(words, event.clientX, event.clientY);
    }, TIP_DELAY);
  }

  #hideTip() {
    clearTimeout(this.tipTimer);
    byId("tip").hidden = true;
  }

  #showTip(words, x, y) {
    const tip = byId("tip");
    tip.replaceChildren(...words);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - width - 10))}px`;
    tip.style.top = `${Math.max(6, Math.min(y + 18, innerHeight - height - 10))}px`;
  }

  #wordsOfItem(number) {
    const item = this.model.items[number];
    const figure = item.figures?.[this.state.colour];
    return [itemButton(this.model, number, () => {}), ...[item.path, item.line, figure].filter(Boolean).map((words) => h("div", {}, words))];
  }

  #wordsOfLine(line) {
    const ends = line.target === null
      ? `${this.model.nameOf(line.source)} →` : `${this.model.nameOf(line.source)} → ${this.model.nameOf(line.target)}`;
    return [h("b", {}, ends), ...(line.wire?.words ?? []).map((words) => h("div", {}, words))];
  }
}

/** The item in which something happened; null for none. */
function numberAt(event) {
  const element = event.target.closest("[data-item]");
  return element ? Number(element.dataset.item) : null;
}
