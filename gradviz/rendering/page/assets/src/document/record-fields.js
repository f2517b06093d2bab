// Made by 'python -m tests.page.document_types' of gradviz.rendering.page.document: change that instead.

/** @type {readonly (keyof import("./wire-types.js").PageSides)[]} */
export const SIDES_FIELDS = ["what", "a", "b"];

/** @type {readonly (keyof import("./wire-types.js").PagePosition)[]} */
export const POSITION_FIELDS = ["item", "x", "y", "route", "flow"];

/** @type {readonly (keyof import("./wire-types.js").PageArrival)[]} */
export const ARRIVAL_FIELDS = ["step", "slot", "amount"];

/** @type {readonly (keyof import("./wire-types.js").PageCell)[]} */
export const CELL_FIELDS = ["around", "bytes", "title", "name", "kind", "storages", "file", "line", "nodes"];
