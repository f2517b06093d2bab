/** Clicks, taps and keys on what the picture shows. */
import { byId } from "./dom.js";

/** @param {import("./app.js").App} app */
export function listenToPicture(app) {
  const svg = byId("picture");
  svg.addEventListener("click", (event) => click(app, event));
  svg.addEventListener("dblclick", (event) => {
    const number = app.picture.numberAt(event);
    if (number !== null && !event.target.closest(".toggle")) app.toggle(number);
  });
  svg.addEventListener("keydown", (event) => {
    const isMeant = event.key === "Enter" || (event.key === " " && !app.player.isOn);
    const number = isMeant ? app.picture.numberAt(event) : null;
    if (number === null) return;
    event.preventDefault();
    if (number === app.state.selected) app.toggle(number);
    else app.select(number);
  });
}

function click(app, event) {
  const number = app.picture.numberAt(event);
  if (number === null) {
    app.askForWay(false);
    return app.select(null);
  }
  if (event.target.closest(".toggle")) return app.toggle(number);
  return event.shiftKey || app.isWayAsked ? app.showWay(number) : app.select(number);
}
