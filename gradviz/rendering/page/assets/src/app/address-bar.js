/** Keeps the address up to date; in a frame, such as a notebook's, address and way back belong to the page around it. */
import { isFramed } from "../shared/framed.js";

/** In milliseconds: browsers refuse to write the address too often. */
const NOTED_AFTER = 400;

export class AddressBar {
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #noting;
  /** What the address says, or said when the page was opened: somebody may have asked for what this graph lacks. */
  #said = "";

  /** @param {() => string} hash of what is shown */
  constructor(hash) {
    this.hash = hash;
  }

  /** After a view that the address asked for is shown. */
  begin() {
    this.#said = `#${this.hash()}`;
  }

  /** After what changes often, such as the zoom, has changed: no view to go back to. */
  note() {
    clearTimeout(this.#noting);
    this.#noting = setTimeout(() => this.#write("replaceState"), NOTED_AFTER);
  }

  /** A view to go back to. */
  push() {
    this.#write("pushState");
  }

  /** @param {"pushState"|"replaceState"} how */
  #write(how) {
    const hash = `#${this.hash()}`;
    if (hash === this.#said) return;
    this.#said = hash;
    if (!isFramed && hash !== (location.hash || "#")) history[how](null, "", hash);
  }
}
