/**
 * What part of the picture is seen: pan, zoom, fit, and moving to a point.
 *
 * @import { D3ZoomEvent, ZoomTransform } from "d3-zoom"
 * @import { Point, Rect, SeenRect } from "../layout/types.js"
 */
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { byId } from "../shared/dom.js";
import { isFramed } from "../shared/framed.js";
import { MAX_SCALE, MIN_SCALE, NEAR } from "./zoom-levels.js";

/** Around what is fitted; at the right, on a phone below, there are the buttons for zooming. */
const MARGINS = { left: 20, right: 76, top: 14, bottom: 14 };
const MARGINS_ON_PHONE = { left: 10, right: 10, top: 10, bottom: 46 };
const narrow = matchMedia("(max-width: 620px)");
/** Smaller words are hard to read. */
const LEGIBLE = 0.75;
/** Still smaller titles cannot be read. */
const MIN_LEGIBLE = 0.6;
const MAX_FIT = 1.25;
const MAX_LARGER = 1.8;
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
  /** @type {() => void} */
  #resized = () => {};

  constructor() {
    this.svg = byId("picture");
    this.transform = zoomIdentity;
    /** Whether all is seen as `fit` shows it; nobody has moved it since. */
    this.isFitted = true;
    /** @type {import("d3-zoom").ZoomBehavior<SVGSVGElement, unknown>} */
    const behaviour = zoom();
    this.behaviour = behaviour
      .scaleExtent([MIN_SCALE, MAX_SCALE])
      .filter((event) => (event.type === "wheel" ? isZooming(event) : !event.button && !event.ctrlKey))
      .on("zoom", (/** @type {D3ZoomEvent<SVGSVGElement, unknown>} */ { transform, sourceEvent }) => {
        if (sourceEvent) this.isFitted = false;
        this.#apply(transform);
      });
    select(this.svg).call(this.behaviour).on("dblclick.zoom", null);
    new ResizeObserver(() => this.#keepCentre()).observe(this.svg);
  }

  /** @param {() => void} listen called after anything else has come into sight */
  onChange(listen) {
    this.#listeners.push(listen);
  }

  /** @param {() => void} listen called after the window around the picture has another size */
  onResize(listen) {
    this.#resized = listen;
  }

  /** What was in the middle from left to right stays there when the panel becomes wider. */
  #keepCentre() {
    const { width } = this.size;
    const { k } = this.transform;
    if (this.#width && this.#width !== width) select(this.svg).call(this.behaviour.translateBy, (width - this.#width) / 2 / k, 0);
    else this.#listeners.forEach((listen) => listen());
    this.#width = width;
    this.#resized();
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

  get #margins() {
    return narrow.matches ? MARGINS_ON_PHONE : MARGINS;
  }

  get #bottom() {
    return this.#margins.bottom + (byId("play-bar").offsetHeight && byId("play-bar").offsetHeight + 10);
  }

  /** The part of the picture in which nothing stands over it. */
  get #room() {
    const { width, height } = this.size;
    const { left, right, top } = this.#margins;
    return { x: left, y: top, width: width - left - right, height: height - top - this.#bottom };
  }

  /**
   * How large a rectangle is once it is fitted, and whether words can be read then.
   *
   * @param {Rect} rect
   */
  fitted({ width, height }) {
    const room = this.#room;
    const scale = Math.min(room.width / width, room.height / height, MAX_FIT);
    return { scale, isLegible: scale >= MIN_LEGIBLE };
  }

  /**
   * All of a rectangle, as large as it can be read; with `isLegible`, no smaller than that either.
   *
   * @param {Rect} rect
   * @param {{isLegible?: boolean, isMoved?: boolean, isFromLeft?: boolean}} [how] `isMoved` step by step; `isFromLeft`
   *   if the left end is seen where not all fits, instead of the middle
   */
  fit(rect, { isLegible = false, isMoved = true, isFromLeft = false } = {}) {
    const room = this.#room;
    const { scale } = this.fitted(rect);
    const k = isLegible && scale < MIN_LEGIBLE ? Math.max(scale, Math.min(LEGIBLE, room.width / Math.min(rect.width, 700))) : scale;
    const spare = room.width - rect.width * k;
    const aside = isFromLeft ? Math.max(0, spare / 2) : spare / 2;
    const down = Math.max(0, (room.height - rect.height * k) / 2);
    this.go(zoomIdentity.translate(room.x + aside - rect.x * k, room.y + down - rect.y * k).scale(k), isMoved);
    this.isFitted = true;
  }

  /**
   * Moves as little as brings a rectangle into sight.
   *
   * @param {Rect} rect
   */
  reveal(rect) {
    const { width, height } = this.size;
    const scale = Math.max(this.transform.k, 0.55);
    const centre = { x: rect.x + rect.width / 2, y: rect.y + Math.min(rect.height, height / scale - 80) / 2 };
    const x = this.transform.applyX(centre.x);
    const y = this.transform.applyY(centre.y);
    const isSeen = x > 60 && x < width - 60 && y > 30 && y < height - this.#bottom - 10 && this.transform.k >= 0.4;
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

  /**
   * What is in the middle, from a point of the scene, and how large it is.
   *
   * @param {Point} origin
   */
  positionFrom(origin) {
    const { x, y, width, height, scale } = this.seen;
    return { x: Math.round(x + width / 2 - origin.x), y: Math.round(y + height / 2 - origin.y), zoom: Number(scale.toPrecision(3)) };
  }

  /**
   * Shows what `positionFrom` told.
   *
   * @param {Point} origin
   * @param {{x: number, y: number, zoom: number}} position
   */
  goFrom(origin, { x, y, zoom: wanted }) {
    const { width, height } = this.size;
    const k = Math.min(MAX_SCALE, Math.max(MIN_SCALE, wanted));
    this.go(zoomIdentity.translate(width / 2 - (origin.x + x) * k, height / 2 - (origin.y + y) * k).scale(k), false);
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
    this.isFitted = false;
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
    // Buttons that fold stay large enough to be hit.
    byId("scene").style.setProperty("--larger", String(Math.min(MAX_LARGER, Math.max(1, 1 / transform.k))));
    this.svg.classList.toggle("far", transform.k < NEAR);
    this.#listeners.forEach((listen) => listen());
  }
}
