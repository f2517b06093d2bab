/** Where everything is, and what is joined to what. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Connections } from "../../gradviz/rendering/page/assets/src/graph/connections.js";
import { AxisStretcher } from "../../gradviz/rendering/page/assets/src/layout/axis-stretcher.js";
import { compose, rectOf, shift } from "../../gradviz/rendering/page/assets/src/layout/compose-scene.js";
import { condensed } from "../../gradviz/rendering/page/assets/src/layout/condense-scene.js";
import { besideOf, nearestOf } from "../../gradviz/rendering/page/assets/src/layout/nearest-item.js";
import { boundsOf, isWithin, touch, widened } from "../../gradviz/rendering/page/assets/src/layout/rectangles.js";
import { joined, pathOf, pointsOf } from "../../gradviz/rendering/page/assets/src/layout/wire-routes.js";
import { nestedModel, NUMBERS } from "./graphs.mjs";

const { encoder, attention, softmax, dropout, head, linear, loss } = NUMBERS;

describe("rectangles", () => {
  const rect = { x: 0, y: 0, width: 10, height: 10 };
  test("touch where they have a corner in common", () => {
    assert.equal(touch(rect, { x: 10, y: 10, width: 5, height: 5 }), true);
    assert.equal(touch(rect, { x: 11, y: 0, width: 5, height: 5 }), false);
  });
  test("lie in one another, or stand out", () => {
    assert.equal(isWithin({ x: 2, y: 2, width: 8, height: 8 }, rect), true);
    assert.equal(isWithin({ x: 2, y: 2, width: 9, height: 8 }, rect), false);
  });
  test("hold points", () => assert.deepEqual(boundsOf([{ x: 3, y: 9 }, { x: 7, y: 1 }]), { x: 3, y: 1, width: 4, height: 8 }));
  test("are widened at every side", () => assert.deepEqual(widened(rect, 0.5), { x: -5, y: -5, width: 20, height: 20 }));
});

describe("a stretched axis", () => {
  /** @param {(axis: AxisStretcher) => void} demand */
  const stretched = (demand) => {
    const axis = new AxisStretcher();
    demand(axis);
    axis.settle();
    return axis;
  };

  test("leaves everything where it is, if nothing is asked for", () => {
    const axis = stretched((all) => all.demandAfter(10, 20, 0));
    assert.deepEqual([axis.total, axis.map(15)], [0, 15]);
  });

  test("moves what is behind", () => {
    const axis = stretched((all) => all.demandAfter(10, 20, 5));
    assert.deepEqual([10, 19, 20, 30].map((position) => axis.map(position)), [10, 19, 25, 35]);
  });

  test("keeps what is at the edge before", () => {
    const axis = stretched((all) => all.demandBefore(10, 20, 5));
    assert.deepEqual([10, 11, 20].map((position) => axis.map(position)), [10, 16, 25]);
  });

  test("shares what is added between demands that overlap", () => {
    const axis = stretched((all) => {
      all.demandAfter(0, 20, 5);
      all.demandAfter(0, 20, 8);
    });
    assert.equal(axis.total, 8);
  });

  test("adds for demands that do not overlap", () => {
    const axis = stretched((all) => {
      all.demandAfter(0, 20, 5);
      all.demandAfter(20, 40, 8);
    });
    assert.deepEqual([axis.total, axis.map(40)], [13, 53]);
  });
});

describe("the way of a wire", () => {
  test("comes from numbers in turn", () => assert.deepEqual(pointsOf([1, 2, 3, 4]), [{ x: 1, y: 2 }, { x: 3, y: 4 }]));

  test("stays straight between ends on its lane", () => {
    assert.deepEqual(joined(pointsOf([5, 0, 5, 100]), { x: 5, y: 10 }, { x: 5, y: 90 }), pointsOf([5, 10, 5, 90]));
  });

  test("turns where an end has moved aside", () => {
    const way = joined(pointsOf([5, 0, 5, 20]), { x: 5, y: 0 }, { x: 25, y: 20 });
    assert.deepEqual(way, pointsOf([5, 0, 5, 10, 25, 10, 25, 20]));
  });

  test("has round corners", () => assert.equal(pathOf(pointsOf([0, 0, 0, 20, 20, 20])), "M0 0L0 12Q0 20 8 20L20 20"));
});

describe("a scene", () => {
  const model = nestedModel();
  const closed = compose(model, new Set());
  const open = compose(model, new Set([encoder, attention]));

  test("shows closed boxes as items", () => {
    assert.deepEqual([...closed.items.keys()], [encoder, head, loss]);
    assert.equal(closed.open.size, 0);
  });

  test("shows what is in open boxes, and these around it", () => {
    assert.deepEqual(new Set(open.items.keys()), new Set([softmax, dropout, head, loss]));
    assert.deepEqual([...open.open].map(([number, { depth }]) => ({ number, depth })), [{ number: encoder, depth: 0 }, { number: attention, depth: 1 }]);
  });

  test("has everything within its box, and nothing on anything else", () => {
    for (const [number, rect] of [...open.items, ...open.open]) {
      const around = model.boxAround(number);
      const outer = around === null ? open : rectOf(open, around);
      assert.ok(outer && isWithin(rect, outer), `${number} is in its box`);
    }
    const rects = [...open.items.values()];
    for (const [at, rect] of rects.entries()) for (const other of rects.slice(at + 1)) assert.equal(touch(rect, other), false);
  });

  test("grows by what is opened in it", () => assert.ok(open.height > closed.height));

  test("joins lines to what is shown of what they come from", () => {
    assert.ok(closed.lines.some(({ from, to }) => from === `item:${encoder}` && to === `item:${head}`));
    assert.ok(open.lines.some(({ from, to }) => from === `item:${softmax}` && to === `item:${dropout}`));
  });

  test("moves as a whole", () => {
    const moved = compose(model, new Set());
    const before = { ...rectOf(moved, head) };
    const start = { ...moved.lines[0].points[0] };
    shift(moved, 7, -3);
    assert.deepEqual(rectOf(moved, head), { ...before, x: (before.x ?? NaN) + 7, y: (before.y ?? NaN) - 3 });
    assert.deepEqual(moved.lines[0].points[0], { x: start.x + 7, y: start.y - 3 });
    assert.deepEqual({ x: moved.x, y: moved.y }, { x: 7, y: -3 });
  });
});

describe("connections", () => {
  const model = nestedModel();
  const scene = compose(model, new Set([encoder, attention, head]));
  const connections = new Connections(scene);

  test("lead through the borders of boxes to the next items", () => {
    assert.deepEqual(connections.neighbours([dropout], "onwards"), [linear]);
    assert.deepEqual(connections.neighbours([linear], "back"), [dropout]);
  });

  test("reach everything that comes after, or went before", () => {
    assert.deepEqual(connections.reached([softmax], "onwards").items, new Set([dropout, linear, loss]));
    assert.deepEqual(connections.reached([linear], "back").items, new Set([dropout, softmax]));
  });

  test("tell who takes what flows along a line that ends at a border", () => {
    const line = scene.lines.find(({ source, to }) => source === dropout && !to.startsWith("item:"));
    assert.ok(line);
    assert.deepEqual(connections.takersOf(line), [linear]);
  });

  test("have a shortest way with the data, and none against it", () => {
    assert.deepEqual(connections.way(softmax, loss)?.items, new Set([softmax, dropout, linear, loss]));
    assert.equal(connections.way(loss, softmax), null);
  });
});

describe("arrow keys", () => {
  const model = nestedModel();
  const scene = compose(model, new Set());
  test("lead to the nearest of several", () => assert.equal(nearestOf(model, scene, encoder, [loss, head]), head));
  test("lead nowhere where there is nothing", () => {
    assert.equal(nearestOf(model, scene, encoder, []), null);
    assert.equal(besideOf(scene, encoder, "left"), null);
  });
  test("lead aside to what is about as high", () => {
    const beside = { ...scene, items: new Map([...scene.items, [99, { x: 200, y: 25, width: 100, height: 40 }]]) };
    assert.equal(besideOf(beside, encoder, "right"), 99);
    assert.equal(besideOf(beside, encoder, "left"), null);
  });
});

describe("a part of a scene, laid out anew", () => {
  const model = nestedModel();
  const whole = compose(model, new Set([encoder, attention, head]));
  const connections = new Connections(whole);
  const way = connections.way(dropout, linear);
  assert.ok(way);
  const part = condensed(whole, way, (number) => model.boxesAround(number));

  test("has only what is asked for, and the boxes around it", () => {
    assert.deepEqual(new Set(part.items.keys()), new Set([dropout, linear]));
    assert.deepEqual(new Set(part.open.keys()), new Set([encoder, attention, head]));
    assert.deepEqual(new Set(part.lines.map(({ key }) => key)), way.lines);
  });

  test("is smaller, with every item as large as before and within its box", () => {
    assert.ok(part.height < whole.height);
    for (const [number, rect] of part.items) {
      assert.deepEqual([rect.width, rect.height], [whole.items.get(number)?.width, whole.items.get(number)?.height]);
      const around = rectOf(part, model.boxAround(number) ?? -1);
      assert.ok(around && isWithin(rect, around));
    }
  });

  test("has wires that still end where they did", () => {
    const line = part.lines.find(({ to }) => to === `item:${linear}`);
    const rect = part.items.get(linear);
    assert.ok(line && rect);
    assert.equal(line.points.at(-1)?.y, rect.y);
  });
});
