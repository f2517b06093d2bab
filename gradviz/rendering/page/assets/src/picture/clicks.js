/**
 * Clicks, taps and keys on what the picture shows.
 *
 * @import { App } from "../app/app.js"
 */
import { byId, targetOf } from "../shared/dom.js";

/** @param {App} app */
export function listenToPicture(app) {
  const svg = byId("picture");
  svg.addEventListener("click", (event) => click(app, event));
  svg.addEventListener("dblclick", (event) => {
    const number = app.stage.picture.numberAt(event);
    if (number !== null && !targetOf(event).closest(".toggle")) app.toggle(number);
  });
  svg.addEventListener("keydown", (event) => {
    const isMeant = event.key === "Enter" || (event.key === " " && !app.player.isOn);
    const number = isMeant ? app.stage.picture.numberAt(event) : null;
    if (number === null) return;
    event.preventDefault();
    if (number === app.state.selected) app.toggle(number);
    else app.select(number);
  });
}

/**
 * @param {App} app
 * @param {MouseEvent} event
 */
function click(app, event) {
  const number = app.stage.picture.numberAt(event);
  if (number === null) {
    app.askForWay(false);
    app.select(null);
  } else if (targetOf(event).closest(".toggle")) app.toggle(number);
  else if (event.shiftKey || app.isWayAsked) app.showWay(number);
  else app.select(number);
}
