/** The graph as data, and which boxes are open. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { toggled, withAllInside, withEachToggled, MAX_SHOWN } from "../../gradviz/rendering/page/assets/src/graph/folding.js";
import { Model } from "../../gradviz/rendering/page/assets/src/graph/model.js";
import { column, documentOf, item, nestedModel, NUMBERS, REPEATED, repeatedModel } from "./graphs.mjs";

const { encoder, attention, softmax, dropout, head, linear, loss } = NUMBERS;

/** @param {...number} numbers */
const opened = (...numbers) => new Set(numbers);

describe("a model", () => {
  test("knows the boxes around an item, the outermost first", () => {
    assert.deepEqual(nestedModel().boxesAround(softmax), [encoder, attention]);
    assert.deepEqual(nestedModel().boxesAround(loss), []);
  });

  test("finds a box and all in it", () => {
    assert.deepEqual(nestedModel().boxesWithin(encoder), [encoder, attention]);
    assert.deepEqual(new Set(nestedModel().boxesWithin(null)), opened(encoder, attention, head));
  });

  test("finds nothing in what is no box", () => {
    assert.deepEqual(nestedModel().boxesWithin(softmax), []);
  });

  test("shows an item as the outermost closed box around it", () => {
    const model = nestedModel();
    assert.equal(model.shownFor(softmax, opened()), encoder);
    assert.equal(model.shownFor(softmax, opened(encoder)), attention);
    assert.equal(model.shownFor(softmax, opened(encoder, attention)), softmax);
  });

  test("finds the item of a node, and none for a node of another graph", () => {
    assert.equal(nestedModel().itemOfNode(13), linear);
    assert.equal(nestedModel().itemOfNode(99), undefined);
    assert.equal(nestedModel().itemOfNode(null), undefined);
  });

  test("calls a module by its path, and anything else by its title", () => {
    assert.equal(nestedModel().nameOf(attention), "encoder.attention");
    assert.equal(nestedModel().nameOf(softmax), "Softmax");
  });

  test("has the colours that were asked for, unless there is nothing of them", () => {
    const gradient = { words: "gradient", tints: [], is_scale: true, ends: null };
    assert.equal(nestedModel({ color_by: "gradient", legends: { gradient } }).firstColour, "gradient");
    assert.equal(nestedModel({ color_by: "gradient" }).firstColour, "none");
  });
});

describe("a box of several alike", () => {
  const { blocks, first, each, block1, relu0, relu1 } = REPEATED;

  test("is drawn as one item, however it is open", () => {
    const model = repeatedModel();
    assert.equal(model.shownAs(each), blocks);
    assert.equal(model.openAs(blocks, opened(blocks)), blocks);
    assert.equal(model.openAs(blocks, opened(each)), each);
    assert.equal(model.openAs(blocks, opened()), null);
  });

  test("is open in one way at a time", () => {
    const model = repeatedModel();
    assert.deepEqual(model.withOpen(opened(blocks), [each]), opened(each));
    assert.deepEqual(model.withOpen(opened(each), [blocks]), opened(blocks));
  });

  test("shows a node where it is to be seen", () => {
    const model = repeatedModel();
    assert.equal(model.itemOfNode(21, opened(blocks)), first);
    assert.equal(model.itemOfNode(21, opened(each)), relu0);
    assert.equal(model.itemOfNode(22, opened(each)), relu1);
    assert.equal(model.isCurrent(relu1, opened(blocks)), false);
  });

  test("has an item of a node also where that is not to be seen", () => {
    assert.equal(repeatedModel().itemOfNode(22, opened(blocks)), relu1);
  });

  test("has a star in its name where it shows each", () => {
    const model = repeatedModel();
    assert.equal(model.moduleOf(blocks), "h.0");
    assert.equal(model.moduleOf(each), "h.0*");
  });

  test("tells what only it tells apart", () => {
    const model = repeatedModel();
    assert.equal(model.isOneOfEach(block1), true);
    assert.equal(model.isOneOfEach(first), false);
  });

  test("shows each of them, and then one for all again", () => {
    const model = repeatedModel();
    const all = withEachToggled(model, opened(blocks), blocks);
    assert.deepEqual(all, opened(each));
    assert.deepEqual(withEachToggled(model, opened(each), blocks), opened(blocks));
    assert.equal(withEachToggled(model, opened(), block1), null);
  });
});

describe("folding", () => {
  test("opens a closed box, and closes an open one", () => {
    const model = nestedModel();
    assert.deepEqual(toggled(model, opened(), encoder), opened(encoder));
    assert.deepEqual(toggled(model, opened(encoder, head), encoder), opened(head));
  });

  test("leaves what is no box as it is", () => {
    assert.equal(toggled(nestedModel(), opened(), dropout), null);
  });

  test("leaves the boxes that were open before as they were", () => {
    const before = opened(head);
    toggled(nestedModel(), before, encoder);
    assert.deepEqual(before, opened(head));
  });

  test("opens a box with all in it, and all around it", () => {
    const model = nestedModel();
    assert.deepEqual(withAllInside(model, opened(), encoder, 3), { opened: opened(encoder, attention), isAll: true });
    assert.deepEqual(withAllInside(model, opened(), attention, 3).opened, opened(encoder, attention));
  });

  test("opens all boxes", () => {
    assert.deepEqual(withAllInside(nestedModel(), opened(), null, 3).opened, opened(encoder, attention, head));
  });

  test("stops before too much is shown, and says so", () => {
    const [small, large] = [0, 1];
    const many = Array.from({ length: MAX_SHOWN }, () => item({ parent: large }));
    const items = [item({ role: "box" }), item({ role: "box" }), ...many, item({ parent: small })];
    const numbers = many.map((_, at) => at + 2);
    const model = new Model(documentOf(items, [column(null, [small, large]), column(small, [items.length - 1]), column(large, numbers)]));
    const found = withAllInside(model, opened(), null, 2);
    assert.deepEqual(found, { opened: opened(large), isAll: false });
  });
});
