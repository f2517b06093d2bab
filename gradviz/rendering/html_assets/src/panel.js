/** The panel: everything that is known of what is selected; of the whole graph, where nothing is. */
import { byId, h } from "./dom.js";
import { callParts, lineParts, memoryParts, Parameters } from "./lists.js";
import { sourceAround } from "./source.js";

export class Panel {
  /**
   * @param {import("./model.js").Model} model
   * @param {object} actions what its buttons do, with the number of an item
   */
  constructor(model, actions) {
    this.model = model;
    this.actions = actions;
    this.element = byId("panel-content");
    this.tab = "graph";
    this.parameters = new Parameters(model, actions.select, () => this.show(null, null));
  }

  /** @param {{from: number[], to: number[], isOpen: boolean, isOnly: boolean}} around */
  show(number, around) {
    this.fill(number === null ? this.#overview() : this.#about(number, around));
  }

  /** @param {(Node|null)[]} parts */
  fill(parts) {
    this.element.replaceChildren(...parts.filter(Boolean));
    byId("panel").scrollTop = 0;
  }

  #about(number, { from, to, isOpen, isOnly }) {
    const item = this.model.items[number];
    const { roles, sources } = this.model.document;
    const source = item.source && sources[item.source[0]] ? sourceAround(sources[item.source[0]], item.source[1]) : null;
    const code = source && [h("h3", {}, item.line, item.link ? h("a", { href: item.link, class: "edit" }, "open in editor") : null), source];
    return [
      h("p", { class: "kind" }, h("span", { class: `swatch ${item.role}` }), roles[item.role][0]),
      h("h2", { tabindex: -1 }, item.title, item.repeat > 1 ? h("span", { class: "times" }, ` ×${item.repeat.toLocaleString("en")}`) : null),
      h("p", { class: "subtitle" }, [item.subtitle, item.shape_words].filter(Boolean).join(" · ")),
      item.path && item.path !== item.title ? h("p", { class: "path" }, item.path) : null,
      this.#buttons(number, isOpen, isOnly),
      ...this.#figures(item),
      ...this.#sections(item, true),
      ...(code ?? []),
      ...this.#formula(item),
      ...this.#neighbours("takes data from", from, "and sends its gradient there"),
      ...this.#neighbours("gives data to", to, "and gets its gradient from there"),
      ...this.#sections(item, false),
    ];
  }

  /** What backward computes there: said by the step in which it ran, of several alike by the first of them. */
  #formula(item) {
    const node = (item.nodes ?? [])[0];
    const step = this.model.document.replay?.steps.find(({ nodes }) => nodes.includes(node));
    const told = step?.facts.filter(({ heading }) => heading === "formula" || heading === "in torch") ?? [];
    return told.flatMap(({ heading, lines }) => [h("h3", {}, heading), h("pre", { class: "fact" }, lines.join("\n"))]);
  }

  #buttons(number, isOpen, isOnly) {
    const button = (words, action, title) => h("button", { type: "button", title, onclick: () => action(number) }, words);
    const opens = this.model.canOpen(number);
    const holdsMore = opens && this.model.boxesWithin(number).length > 1;
    return h(
      "div",
      { class: "buttons" },
      opens ? button(isOpen ? "Fold" : "Unfold", this.actions.toggle, "e") : null,
      holdsMore ? button(isOpen ? "Unfold all inside" : "Unfold all", this.actions.unfoldAll, "Shift+E") : null,
      button("Centre", this.actions.reveal, "c"),
      button(isOnly ? "Show everything" : "Show only this", this.actions.only, "o"),
      button("Copy", () => copy(this.#asText(number)), "everything below as text"),
    );
  }

  #figures(item) {
    const words = { gradient: "gradient norm", memory: "kept for backward", time: "engine time" };
    const told = Object.entries(words).filter(([by]) => item.figures?.[by]);
    if (!told.length) return [];
    return [h("dl", { class: "figures" }, told.map(([by, name]) => h("div", {}, h("dt", {}, name), h("dd", {}, item.figures[by]))))];
  }

  /** What a check found, which stands first, or all the rest. */
  #sections(item, areFindings) {
    return (item.sections ?? [])
      .filter(({ heading }) => (heading === "findings") === areFindings)
      .flatMap(({ heading, lines }) => [
        heading ? h("h3", {}, heading) : null,
        h("ul", { class: `lines${areFindings ? " findings" : ""}` }, lines.map((line) => h("li", {}, lineOf(line)))),
      ]);
  }

  #neighbours(heading, numbers, title) {
    if (!numbers.length) return [];
    const rows = numbers.slice(0, 30).map((number) => h("li", {}, itemButton(this.model, number, this.actions.select)));
    if (numbers.length > 30) rows.push(h("li", { class: "quiet" }, `and ${numbers.length - 30} more`));
    return [h("h3", { title }, heading), h("ul", { class: "neighbours" }, rows)];
  }

  /** About the whole graph, under tabs. */
  #overview() {
    const { name, facts } = this.model.document;
    const tabs = this.#tabs();
    const [, , parts] = tabs.find(([key]) => key === this.tab);
    const buttons = tabs.map(([key, words]) =>
      h("button", { type: "button", role: "tab", "aria-selected": String(key === this.tab), onclick: () => this.#turnTo(key) }, words));
    return [
      h("h2", { tabindex: -1 }, name),
      h("p", { class: "subtitle" }, facts),
      tabs.length > 1 ? h("div", { class: "tabs", role: "tablist" }, buttons) : null,
      ...parts(),
    ];
  }

  /** Only those that have something to show. */
  #tabs() {
    const { calls, memory, parameters, sources } = this.model.document;
    const tabs = [["graph", "Graph", () => this.#remarks()]];
    if (calls.length) tabs.push(["calls", "Calls", () => callParts(this.model.document, this.actions.graph)]);
    if (parameters.length) tabs.push(["parameters", "Parameters", () => this.parameters.parts()]);
    if (memory?.bytes) tabs.push(["memory", "Memory", () => memoryParts(this.model, this.actions.select)]);
    if (Object.keys(sources).length) tabs.push(["lines", "Lines", () => lineParts(this.model, this.actions.light)]);
    return tabs;
  }

  #turnTo(tab) {
    this.tab = tab;
    this.show(null, null);
    this.element.querySelector("[role=tab][aria-selected=true]")?.focus();
  }

  #remarks() {
    const { error, notes } = this.model.document;
    const found = this.model.items
      .map((item, number) => [item.finding, number])
      .filter(([finding, number]) => finding && !this.model.canOpen(number));
    const rows = found.slice(0, 100).map(([, number]) => h("li", {}, itemButton(this.model, number, this.actions.select)));
    return [
      error ? h("p", { class: "error" }, error) : null,
      ...(rows.length ? [h("h3", {}, "findings"), h("ul", { class: "neighbours" }, rows)] : []),
      ...(notes.length ? [h("h3", {}, "notes"), h("ul", { class: "lines" }, notes.map((note) => h("li", {}, note)))] : []),
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => this.actions.save("svg") }, "Save as SVG"),
        h("button", { type: "button", onclick: () => this.actions.save("png") }, "Save as PNG")),
      h("p", { class: "hint" }, "Click something to see all that is known of it; what its gradient flows to and came from lights up. ",
        h("kbd", {}, "?"), " lists the keys."),
    ];
  }

  #asText(number) {
    const item = this.model.items[number];
    const head = [item.title, item.subtitle, item.path, item.shape_words, item.line].filter(Boolean);
    return [...head, ...(item.sections ?? []).flatMap(({ heading, lines }) => ["", heading, ...lines])].join("\n");
  }
}

/** A button with an item's name and what it is. */
export function itemButton(model, number, action) {
  const item = model.items[number];
  return h(
    "button",
    { type: "button", class: "item-button", onclick: () => action(number) },
    h("span", { class: `swatch ${item.role}` }), h("b", {}, item.title),
    h("span", { class: "quiet" }, [item.subtitle, item.shape_words].filter(Boolean).join(" · ")),
  );
}

/** ``name: value`` with the name quiet; a histogram in letters of one width. */
function lineOf(line) {
  if (/[▁▂▃▄▅▆▇█]/.test(line)) return h("span", { class: "histogram" }, line);
  const [, name, rest] = /^([^:=]{1,40})( = |: )/.exec(line) ?? [];
  return name ? [h("span", { class: "quiet" }, name + rest), line.slice(name.length + rest.length)] : line;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", {});
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  announce("copied");
}

/** Says something for a moment, also to screen readers. */
export function announce(words) {
  const status = byId("status");
  status.textContent = words;
  status.toggleAttribute("data-shown", true);
  setTimeout(() => status.removeAttribute("data-shown"), 1800);
}
