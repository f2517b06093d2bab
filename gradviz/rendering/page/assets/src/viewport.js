/** What part of the picture is seen: pan, zoom, fit, and moving to a place. */
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { NEAR } from "./crowd.js";
import { byId, isFramed } from "./dom.js";

const MARGIN = 28;
/** Room for the breadcrumbs, and for the legend or the bar of the backward pass. */
const TOP = 38;
const BOTTOM = 40;
/** Of a box, in the picture. */
const TITLE = 25;
const LEGIBLE = 0.75;
const LARGEST_FIT = 1.25;

/** In a frame the wheel scrolls the page around it, until something in here was clicked. */
const isZooming = (event) => !isFramed || event.ctrlKey || document.hasFocus();

export class Viewport {
  #frame = 0;
  #listeners = [];

  constructor() {
    this.svg = byId("picture");
    this.transform = zoomIdentity;
    this.behaviour = zoom()
      .scaleExtent([0.02, 4])
      .filter((event) => (event.type === "wheel" ? isZooming(event) : !event.button && !event.ctrlKey))
      .on("zoom", ({ transform }) => this.#apply(transform));
    select(this.svg).call(this.behaviour).on("dblclick.zoom", null);
    new ResizeObserver(() => this.#keepCentre()).observe(this.svg);
  }

  onChange(listen) {
    this.#listeners.push(listen);
  }

  /** What was in the middle from left to right stays there when the panel becomes wider. */
  #keepCentre() {
    const { width } = this.size;
    const { k } = this.transform;
    if (this.width && this.width !== width) select(this.svg).call(this.behaviour.translateBy, (width - this.width) / 2 / k, 0);
    else this.#listeners.forEach((listen) => listen());
    this.width = width;
  }

  get size() {
    const { width, height } = this.svg.getBoundingClientRect();
    return { width, height };
  }

  /** What is seen, in the coordinates of the scene, and how many pixels one of these is. */
  get seen() {
    const { width, height } = this.size;
    const [left, top] = this.transform.invert([0, 0]);
    const { k: scale } = this.transform;
    return { x: left, y: top, width: width / scale, height: height / scale, scale };
  }

  get #bottom() {
    return Math.max(BOTTOM, ...["play-bar", "legend"].map((id) => byId(id).offsetHeight + 20));
  }

  /** All of a rectangle, as large as it can be read; with `isLegible`, no smaller than that either. */
  fit(rect, { isLegible = false, isMoved = true } = {}) {
    const { width, height } = this.size;
    const room = { width: width - 2 * MARGIN, height: height - TOP - this.#bottom };
    const scale = Math.min(room.width / rect.width, room.height / rect.height, LARGEST_FIT);
    const k = isLegible ? Math.max(scale, Math.min(LEGIBLE, room.width / Math.min(rect.width, 700))) : scale;
    const x = width / 2 - (rect.x + rect.width / 2) * k;
    const down = Math.max(0, (room.height - rect.height * k) / 2);
    const y = TOP + down - rect.y * k;
    this.go(zoomIdentity.translate(x, y).scale(k), isMoved);
  }

  /** Moves as little as brings a rectangle into sight, below the titles of so many boxes around it. */
  reveal(rect, boxesAround = 0) {
    const { width, height } = this.size;
    const least = Math.max(this.transform.k, 0.55);
    const centre = { x: rect.x + rect.width / 2, y: rect.y + Math.min(rect.height, height / least - 80) / 2 };
    const x = this.transform.applyX(centre.x);
    const y = this.transform.applyY(centre.y);
    const isSeen = x > 60 && x < width - 60 && y > 50 + boxesAround * TITLE * this.transform.k && y < height - this.#bottom - 10 && this.transform.k >= 0.4;
    if (!isSeen) this.go(zoomIdentity.translate(width / 2 - centre.x * least, height / 2 - centre.y * least).scale(least));
  }

  /** Puts a point of the scene into the middle. */
  centre(x, y) {
    const { width, height } = this.size;
    const { k } = this.transform;
    this.go(zoomIdentity.translate(width / 2 - x * k, height / 2 - y * k).scale(k), false);
  }

  zoomBy(factor) {
    const { width, height } = this.size;
    const [x, y] = this.transform.invert([width / 2, height / 2]);
    const k = Math.min(4, Math.max(0.02, this.transform.k * factor));
    this.go(zoomIdentity.translate(width / 2 - x * k, height / 2 - y * k).scale(k));
  }

  go(goal, isMoved = true) {
    cancelAnimationFrame(this.#frame);
    const set = (transform) => select(this.svg).call(this.behaviour.transform, transform);
    if (!isMoved || matchMedia("(prefers-reduced-motion: reduce)").matches) return set(goal);
    const from = this.transform;
    const start = performance.now();
    this.svg.setAttribute("data-moving", "");
    const step = (now) => {
      const part = Math.min(1, Math.max(0, (now - start) / 260));
      const eased = 1 - (1 - part) ** 3;
      const k = from.k * (goal.k / from.k) ** eased;
      const mix = (one, other) => one + (other - one) * eased;
      set(zoomIdentity.translate(mix(from.x, goal.x), mix(from.y, goal.y)).scale(k));
      if (part < 1) this.#frame = requestAnimationFrame(step);
      else this.svg.removeAttribute("data-moving");
    };
    this.#frame = requestAnimationFrame(step);
    return undefined;
  }

  #apply(transform) {
    this.transform = transform;
    byId("scene").setAttribute("transform", transform.toString());
    this.svg.classList.toggle("far", transform.k < NEAR);
    this.#listeners.forEach((listen) => listen());
  }
}
