/**
 * Lights up what belongs to what is selected or found, and dims the rest.
 *
 * @import { Connections, Part } from "../graph/connections.js"
 * @import { Picture } from "./picture.js"
 *
 * @typedef {{from: Part, to: Part}} Lit what the data came from, and where it goes
 *
 * @typedef {object} Marks
 * @property {Lit|null} lit
 * @property {Set<number>|null} matches
 * @property {number|null} selected
 * @property {number|null} goal the other end of a way
 * @property {boolean} only
 */
import { nothing } from "../graph/connections.js";
import { announce } from "../shared/announce.js";
import { byId } from "../shared/dom.js";

/**
 * What lights up for a selection.
 *
 * @param {Connections} connections
 * @param {{selected: number, goal: number|null, own: number[]}} chosen `own` is what is shown of the selected item
 * @returns {Lit}
 */
export function litBy(connections, { selected, goal, own }) {
  if (goal !== null) return wayBetween(connections, selected, goal);
  const from = connections.reached(own, "back");
  const to = connections.reached(own, "onwards");
  if (!connections.scene.items.has(selected)) for (const number of own) from.items.add(number);
  return { from, to };
}

/**
 * @param {Connections} connections
 * @param {number} selected
 * @param {number} goal
 * @returns {Lit}
 */
function wayBetween(connections, selected, goal) {
  const onwards = connections.way(selected, goal);
  const back = onwards ? null : connections.way(goal, selected);
  if (!onwards && !back) announce("no data flows between the two");
  return { from: back ?? nothing(), to: onwards ?? nothing() };
}

/**
 * @param {Picture} picture
 * @param {Marks} marks
 */
export function mark(picture, { lit, matches, selected, goal, only }) {
  const svg = byId("picture");
  svg.classList.toggle("marked", Boolean(lit) || Boolean(matches?.size));
  svg.classList.toggle("only", only);
  for (const [number, element] of picture.elementsOfItems()) {
    element.classList.toggle("selected", number === selected || number === goal);
    element.classList.toggle("lit-from", Boolean(lit?.from.items.has(number)));
    element.classList.toggle("lit-to", Boolean(lit?.to.items.has(number)));
    element.classList.toggle("match", Boolean(matches?.has(number)) && !picture.scene.open.has(number));
    element.setAttribute("tabindex", number === selected ? "0" : "-1");
  }
  for (const [key, element] of picture.elementsOfLines()) {
    element.classList.toggle("lit-from", Boolean(lit?.from.lines.has(key)));
    element.classList.toggle("lit-to", Boolean(lit?.to.lines.has(key)));
  }
  // Something must be there to be reached by the tab key.
  if (selected === null) svg.querySelector(".item")?.setAttribute("tabindex", "0");
}
