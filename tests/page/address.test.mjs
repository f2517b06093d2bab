/** The view as a part of the address. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FIRST, hashOf, hashOfGraph, viewOf } from "../../gradviz/rendering/page/assets/src/app/address.js";
import { nestedModel, NUMBERS, REPEATED, repeatedModel } from "./graphs.mjs";

const { encoder, attention, softmax, head, linear } = NUMBERS;
const NOTHING = { ...FIRST, opened: new Set(), colour: "none" };
const LEGENDS = { gradient: { words: "gradient", tints: [], is_scale: true } };

describe("an address", () => {
  test("is empty for the view at first", () => {
    assert.equal(hashOf(nestedModel(), { ...NOTHING, opened: new Set() }), "");
  });

  test("names modules that are open, and closed ones that were open at first", () => {
    const model = nestedModel({ opened: [head] });
    assert.equal(hashOf(model, { ...NOTHING, opened: new Set([encoder, attention]) }), "open=encoder,encoder.attention&close=head");
  });

  test("names what is selected by its node", () => {
    const view = { ...NOTHING, opened: new Set([head]), selected: linear };
    assert.equal(hashOf(nestedModel(), view), "node=13&open=head");
  });

  test("names a box, which has no node, by its number", () => {
    assert.equal(hashOf(nestedModel(), { ...NOTHING, opened: new Set(), selected: attention }), `item=${attention}`);
  });

  test("tells colours and widths that somebody chose", () => {
    const model = nestedModel({ legends: LEGENDS });
    assert.equal(hashOf(model, { ...NOTHING, opened: new Set(), colour: "gradient", isWeighed: false }), "color=gradient&weigh=no");
  });

  test("names the graph, where it is not the first", () => {
    assert.equal(hashOf(nestedModel({ index: 2 }), { ...NOTHING, opened: new Set() }), "graph=3");
    assert.equal(hashOfGraph(1, "memory", "calls"), "graph=2&color=memory&tab=calls");
    assert.equal(hashOfGraph(0, null, "about"), "graph=1");
  });
});

describe("a view", () => {
  for (const view of [
    { ...NOTHING, opened: new Set([encoder]) },
    { ...NOTHING, opened: new Set([encoder, attention]), selected: softmax },
    { ...NOTHING, opened: new Set([head]), selected: encoder, colour: "gradient", isWeighed: true },
    { ...NOTHING, opened: new Set([encoder, attention, head]), selected: softmax, goal: linear, only: true, tab: "memory" },
    { ...NOTHING, opened: new Set([head]), find: "op:soft & 100%=", at: { x: 120, y: -40, zoom: 0.75 } },
  ]) {
    test(`comes back from its address: ${hashOf(nestedModel({ legends: LEGENDS }), view)}`, () => {
      const model = nestedModel({ legends: LEGENDS });
      assert.deepEqual(viewOf(model, `#${hashOf(model, view)}`), view);
    });
  }

  test("opens what is around a box that is to be open, and around what is selected", () => {
    assert.deepEqual(viewOf(nestedModel(), "#open=encoder.attention").opened, new Set([encoder, attention]));
    assert.deepEqual(viewOf(nestedModel(), "#node=11").opened, new Set([encoder, attention]));
  });

  test("finds a module by the end of its path", () => {
    assert.deepEqual(viewOf(nestedModel(), "#open=attention").opened, new Set([encoder, attention]));
  });

  test("passes over what is not in this graph", () => {
    assert.deepEqual(viewOf(nestedModel(), "#open=tail,77&node=500&item=99&color=purple&weigh=maybe&x&=&y=1=2"), NOTHING);
  });

  test("shows each of several alike where a star says so", () => {
    const { blocks, each } = REPEATED;
    const model = repeatedModel();
    assert.deepEqual(viewOf(model, "#open=h.0*").opened, new Set([each]));
    assert.deepEqual(viewOf(model, "#open=h.0").opened, new Set([blocks]));
    assert.equal(hashOf(model, { ...NOTHING, opened: new Set([each]) }), "open=h.0*");
  });
});

test("a view that names what this graph lacks is passed over", () => {
  const view = viewOf(nestedModel(), "#direction=LR&step=3&to=99&only=yes&at=1,x,2&find=100%");
  assert.deepEqual(view, { ...NOTHING, find: "100%" });
});
