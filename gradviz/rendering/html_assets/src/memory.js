/** What is kept for backward. */
import { h } from "./dom.js";
import { bar, bytes } from "./parts.js";

const MOST_ROWS = 400;

/** What modules keep for backward; a click goes to the module. */
export function memoryParts(model, go) {
  const { bytes: whole, parameter_bytes: parameters, unknown, modules } = model.document.memory;
  const boxes = new Map([...model.boxes.keys()].reverse().flatMap((box) => (model.items[box].names ?? []).map((path) => [path, box])));
  const rows = modules.filter(({ path, bytes: size }) => path && size).slice(0, MOST_ROWS).map(({ path, class_name: name, bytes: size }) => {
    const words = [h("span", { class: "cost" }, bar(size, Math.max(whole, 1)), bytes(size)), h("span", {}, path, h("span", { class: "quiet" }, ` ${name}`))];
    const box = boxes.get(path);
    return box === undefined ? h("div", {}, words) : h("button", { type: "button", onclick: () => go(box) }, words);
  });
  const more = [`${bytes(parameters)} of parameters and buffers are kept as well, and not counted`, unknown ? "some saved tensors could not be sized" : ""];
  return [
    h("p", {}, h("b", {}, bytes(whole)), " kept for backward, every storage counted once"),
    h("p", { class: "quiet" }, more.filter(Boolean).join("; ")),
    rows.length ? h("h3", {}, "modules, with those inside them") : null,
    h("div", { class: "module-bytes" }, rows),
  ];
}
