/** Reads the graph that the address names, and shows it. */
import { App } from "./app/app.js";
import { graphIndexOf, readDocument } from "./document/read-document.js";
import { Model } from "./graph/model.js";
import { byId, h } from "./shared/dom.js";

async function start() {
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old: it cannot unpack the graph");
  await new App(new Model(await readDocument(graphIndexOf(location.hash)))).start();
}

start().catch((error) => {
  byId("panel-content").replaceChildren(h("h2", {}, "This page cannot be shown"), h("p", { class: "error" }, error.message));
  throw error;
});
