/** Joins the parts of the page: what is open, selected and searched for, and what is shown of it. */
import { App } from "./app.js";
import { placeOf, readDocument } from "./data.js";
import { byId, h } from "./dom.js";
import { Model } from "./model.js";

async function start() {
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old: it cannot unpack the graph");
  await new App(new Model(await readDocument(placeOf(location.hash)))).start();
}

start().catch((error) => {
  byId("panel-content").replaceChildren(h("h2", {}, "This page cannot be shown"), h("p", { class: "error" }, error.message));
  throw error;
});
