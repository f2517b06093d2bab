/** Colour scales are those of what is shown, whatever lies far from all the rest. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { scaleFor, stepOf } from "../../gradviz/rendering/page/assets/src/graph/color-scale.js";
import { Model } from "../../gradviz/rendering/page/assets/src/graph/model.js";
import { nestedModel, NUMBERS } from "./graphs.mjs";

const { softmax, dropout, linear } = NUMBERS;

/**
 * @param {import("../../gradviz/rendering/page/assets/src/graph/color-scale.js").Quantity} quantity
 * @param {number[]} values
 */
function scaleOf(quantity, values) {
  const scale = scaleFor(quantity, values);
  assert.ok(scale);
  return scale;
}

describe("a scale", () => {
  test("of gradients has whole decades, at least four", () => {
    const scale = scaleOf("gradient", [0.3, 0.02]);
    assert.equal(scale.words, "1e-4 … 1, log scale");
    assert.deepEqual([0.3, 1e-4].map((value) => stepOf(scale, value)), [6, 0]);
  });

  test("leaves a figure that is decades away from all others beyond its end, and says so", () => {
    const scale = scaleOf("gradient", [1e-13, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]);
    assert.equal(scale.words, "≤ 1e-4 … 1, log scale");
    assert.equal(stepOf(scale, 1e-13), 0);
  });

  test("holds figures that fade from one to the next", () => {
    assert.equal(scaleOf("gradient", [1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10]).words, "1e-10 … 1, log scale");
  });

  test("of times is linear, and ends with the usual ones", () => {
    const times = [...Array.from({ length: 18 }, (_, at) => (at + 1) * 1e-6), 3e-3, 5e-3];
    const scale = scaleOf("time", times);
    assert.equal(scale.words, "0 … ≥ 18 µs");
    assert.equal(stepOf(scale, 9e-6), 3);
  });

  test("of bytes names them", () => assert.equal(scaleOf("memory", [1024, 1024 ** 2]).words, "1 KiB … 1 MiB, log scale"));
  test("is none without figures", () => assert.equal(scaleFor("time", [0]), null));
});

test("colours follow what is shown", () => {
  const { document } = nestedModel({ legends: { gradient: { words: "gradient", tints: [], is_scale: true } } });
  document.items[softmax].readings = { gradient: [0.5] };
  document.items[dropout].readings = { gradient: [1e-9, "broken"] };
  document.items[linear].readings = { gradient: [0] };
  const model = new Model(document);
  assert.equal(model.rescale([softmax, linear]), true);
  assert.equal(model.scales.gradient?.low, 1e-4);
  assert.deepEqual([softmax, linear].map((number) => model.tintsOf(model.items[number], "gradient")), [["step6"], ["plain"]]);
  assert.equal(model.rescale([softmax, linear]), false);
  assert.equal(model.rescale([softmax, dropout]), true);
  assert.deepEqual(model.tintsOf(model.items[dropout], "gradient"), ["step0", "broken"]);
});
