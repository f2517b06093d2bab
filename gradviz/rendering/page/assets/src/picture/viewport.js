/**
 * What part of the picture is seen: pan, zoom, fit, and moving to a point.
 *
 * @import { D3ZoomEvent, ZoomTransform } from "d3-zoom"
 * @import { Rect, SeenRect } from "../layout/types.js"
 */
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { byId } from "../shared/dom.js";
import { isFramed } from "../shared/framed.js";
import { MAX_SCALE, MIN_SCALE, NEAR } from "./zoom-levels.js";

const MARGIN = 28;
/** Room for the breadcrumbs, and for the legend or the bar of the backward pass. */
const TOP = 38;
const BOTTOM = 40;
/** Of a box, in the picture. */
const TITLE = 25;
const LEGIBLE = 0.75;
const MAX_FIT = 1.25;
const DURATION = 260;

/**
 * In a frame the wheel scrolls the page around it, until something in here was clicked.
 *
 * @param {MouseEvent} event
 */
const isZooming = (event) => !isFramed || event.ctrlKey || document.hasFocus();

export class Viewport {
  #frame = 0;
  #width = 0;
  /** @type {(() => void)[]} */
  #listeners = [];

  constructor() {
    this.svg = byId("picture");
    this.transform = zoomIdentity;
    /** @type {import("d3-zoom").ZoomBehavior<SVGSVGElement, unknown>} */
    const behaviour = zoom();
    this.behaviour = behaviour
      .scaleExtent([MIN_SCALE, MAX_SCALE])
      .filter((event) => (event.type === "wheel" ? isZooming(event) : !event.button && !event.ctrlKey))
      .on("zoom", (/** @type {D3ZoomEvent<SVGSVGElement, unknown>} */ { transform }) => this.#apply(transform));
    select(this.svg).call(this.behaviour).on("dblclick.zoom", null);
    new ResizeObserver(() => this.#keepCentre()).observe(this.svg);
  }

  /** @param {() => void} listen called after anything else has come into sight */
  onChange(listen) {
    this.#listeners.push(listen);
  }

  /** What was in the middle from left to right stays there when the panel becomes wider. */
  #keepCentre() {
    const { width } = this.size;
    const { k } = this.transform;
    if (this.#width && this.#width !== width) select(this.svg).call(this.behaviour.translateBy, (width - this.#width) / 2 / k, 0);
    else this.#listeners.forEach((listen) => listen());
    this.#width = width;
  }

  get size() {
    const { width, height } = this.svg.getBoundingClientRect();
    return { width, height };
  }

  /**
   * What is seen, in the coordinates of the scene, and how many pixels one of these is.
   *
   * @returns {SeenRect}
   */
  get seen() {
    const { width, height } = this.size;
    const [left, top] = this.transform.invert([0, 0]);
    const { k: scale } = this.transform;
    return { x: left, y: top, width: width / scale, height: height / scale, scale };
  }

  get #bottom() {
    return Math.max(BOTTOM, byId("play-bar").offsetHeight + 20, byId("legend").offsetHeight + 20);
  }

  /**
   * All of a rectangle, as large as it can be read; with `isLegible`, no smaller than that either.
   *
   * @param {Rect} rect
   * @param {{isLegible?: boolean, isMoved?: boolean}} [how] `isMoved` step by step
   */
  fit(rect, { isLegible = false, isMoved = true } = {}) {
    const { width, height } = this.size;
    const room = { width: width - 2 * MARGIN, height: height - TOP - this.#bottom };
    const scale = Math.min(room.width / rect.width, room.height / rect.height, MAX_FIT);
    const k = isLegible ? Math.max(scale, Math.min(LEGIBLE, room.width / Math.min(rect.width, 700))) : scale;
    const x = width / 2 - (rect.x + rect.width / 2) * k;
    const down = Math.max(0, (room.height - rect.height * k) / 2);
    const y = TOP + down - rect.y * k;
    this.go(zoomIdentity.translate(x, y).scale(k), isMoved);
  }

  /**
   * Moves as little as brings a rectangle into sight, below the titles of so many boxes around it.
   *
   * @param {Rect} rect
   */
  reveal(rect, boxesAround = 0) {
    const { width, height } = this.size;
    const scale = Math.max(this.transform.k, 0.55);
    const centre = { x: rect.x + rect.width / 2, y: rect.y + Math.min(rect.height, height / scale - 80) / 2 };
    const x = this.transform.applyX(centre.x);
    const y = this.transform.applyY(centre.y);
    const isSeen = x > 60 && x < width - 60 && y > 50 + boxesAround * TITLE * this.transform.k && y < height - this.#bottom - 10 && this.transform.k >= 0.4;
    if (!isSeen) this.go(zoomIdentity.translate(width / 2 - centre.x * scale, height / 2 - centre.y * scale).scale(scale));
  }

  /**
   * Puts a point of the scene into the middle.
   *
   * @param {number} x
   * @param {number} y
   */
  centre(x, y) {
    const { width, height } = this.size;
    const { k } = this.transform;
    this.go(zoomIdentity.translate(width / 2 - x * k, height / 2 - y * k).scale(k), false);
  }

  /** @param {number} factor */
  zoomBy(factor) {
    const { width, height } = this.size;
    const [x, y] = this.transform.invert([width / 2, height / 2]);
    const k = Math.min(MAX_SCALE, Math.max(MIN_SCALE, this.transform.k * factor));
    this.go(zoomIdentity.translate(width / 2 - x * k, height / 2 - y * k).scale(k));
  }

  /**
   * @param {ZoomTransform} goal
   * @param {boolean} isMoved step by step
   */
  go(goal, isMoved = true) {
    cancelAnimationFrame(this.#frame);
    if (!isMoved || matchMedia("(prefers-reduced-motion: reduce)").matches) this.#set(goal);
    else this.#animate(this.transform, goal);
  }

  /** @param {ZoomTransform} transform */
  #set(transform) {
    select(this.svg).call(this.behaviour.transform, transform);
  }

  /**
   * @param {ZoomTransform} from
   * @param {ZoomTransform} goal
   */
  #animate(from, goal) {
    const start = performance.now();
    this.svg.setAttribute("data-moving", "");
    /** @param {number} now */
    const step = (now) => {
      const part = Math.min(1, Math.max(0, (now - start) / DURATION));
      const eased = 1 - (1 - part) ** 3;
      const k = from.k * (goal.k / from.k) ** eased;
      /**
       * @param {number} one
       * @param {number} other
       */
      const mix = (one, other) => one + (other - one) * eased;
      this.#set(zoomIdentity.translate(mix(from.x, goal.x), mix(from.y, goal.y)).scale(k));
      if (part < 1) this.#frame = requestAnimationFrame(step);
      else this.svg.removeAttribute("data-moving");
    };
    this.#frame = requestAnimationFrame(step);
  }

  /** @param {ZoomTransform} transform */
  #apply(transform) {
    this.transform = transform;
    byId("scene").setAttribute("transform", transform.toString());
    this.svg.classList.toggle("far", transform.k < NEAR);
    this.#listeners.forEach((listen) => listen());
  }
}
