/** The backward pass: how it stands after each step, and the words beside it. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Model } from "../../gradviz/rendering/page/assets/src/graph/model.js";
import { labelPosition, sumWords } from "../../gradviz/rendering/page/assets/src/player/gradient-labels.js";
import { Replay } from "../../gradviz/rendering/page/assets/src/player/replay.js";
import { column, documentOf, item, nestedModel, NUMBERS } from "./graphs.mjs";

const { encoder, attention, softmax, dropout, head, linear, loss, weight } = NUMBERS;

/**
 * The loss, then linear (which sends twice to dropout), dropout, and softmax, which waits for two.
 *
 * @type {import("../../gradviz/rendering/page/assets/src/document/wire-types.js").PageReplay}
 */
const REPLAY = {
  beginning: ["1"],
  was_watched: true,
  steps: [
    { nodes: [13], title: "Linear", subtitle: "", facts: [], arrivals: [[0, 0, "1"]], sums: ["1"] },
    { nodes: [12], title: "Dropout", subtitle: "", facts: [], arrivals: [[1, 0, "0.5"]], sums: ["0.5"] },
    { nodes: [11], title: "Softmax", subtitle: "", facts: [], arrivals: [[1, 0, "0.5"], [2, 0, "-2"]], sums: ["-1.5"] },
  ],
};
const replay = new Replay(nestedModel(), REPLAY);

describe("after each step", () => {
  for (const { name, number, states } of [
    { name: "the first operation", number: linear, states: ["ready", "runs", "ran", "ran"] },
    { name: "one in the middle", number: dropout, states: ["ahead", "ready", "runs", "ran"] },
    { name: "one that gets two gradients", number: softmax, states: ["ahead", "waits", "ready", "runs"] },
    { name: "a box", number: head, states: ["ready", "runs", "ran", "ran"] },
    { name: "a box in which two run", number: attention, states: ["ahead", "ready", "runs", "runs"] },
    { name: "what backward does not run", number: weight, states: ["never", "never", "never", "never"] },
  ]) test(`${name} is ${states.join(", ")}`, () => assert.deepEqual(states.map((_, at) => replay.stateOf(number, at)), states));

  test("the items that show it are known", () => {
    assert.deepEqual([0, 1, 2, 3].map((at) => replay.itemsAt(at)), [[], [linear], [dropout], [softmax]]);
  });
});

test("a box that ran with one of its operations, and not yet with the other, ran in part", () => {
  const between = { ...REPLAY, steps: [REPLAY.steps[1], REPLAY.steps[0], REPLAY.steps[2]] };
  assert.equal(new Replay(nestedModel(), between).stateOf(encoder, 2), "partly");
});

test("gradients that have arrived are told from those to come", () => {
  const gradients = replay.arrivalsAt(softmax, 1);
  assert.deepEqual(gradients?.come.map(({ amount }) => amount), ["0.5"]);
  assert.equal(gradients?.arrivals.length, 2);
  assert.equal(replay.arrivalsAt(weight, 1), null);
});

test("along a wire flows what one of its takers has sent", () => {
  assert.equal(replay.amountOn(dropout, [linear], 0), "");
  assert.equal(replay.amountOn(dropout, [linear], 1), "0.5");
  assert.equal(replay.amountOn(softmax, [dropout], 2), "-2");
  assert.equal(replay.amountOn(linear, [loss], 0), "1");
});

test("of two gradients along one wire neither is told", () => {
  assert.equal(replay.amountOn(softmax, [linear, dropout], 2), "");
});

describe("a sum in words", () => {
  /**
   * @param {string[]} amounts
   * @param {number} come
   * @param {string[]} sums
   */
  const words = (amounts, come, sums) => {
    const arrivals = amounts.map((amount, at) => ({ step: at, slot: 0, amount }));
    return sumWords({ arrivals, come: arrivals.slice(0, come), sums });
  };

  for (const { amounts, come, sums, told } of [
    { amounts: ["0.5", "1.2"], come: 0, sums: ["1.7"], told: "" },
    { amounts: ["0.5", "1.2"], come: 1, sums: ["1.7"], told: "0.5 + …" },
    { amounts: ["0.5", "1.2"], come: 2, sums: ["1.7"], told: "0.5 + 1.2 = 1.7" },
    { amounts: ["0.5", "-1.2"], come: 2, sums: ["-0.7"], told: "0.5 − 1.2 = -0.7" },
    { amounts: ["0.5"], come: 1, sums: ["0.5"], told: "0.5" },
    { amounts: ["norm 2", "norm 3"], come: 2, sums: ["norm 4"], told: "norm 2 + norm 3, as a sum norm 4" },
    { amounts: ["1", "1", "1", "1", "1", "1"], come: 6, sums: ["6"], told: "1 + 1 + 1 + 1 + 2 more = 6" },
    { amounts: ["", "1"], come: 2, sums: ["1"], told: "" },
    { amounts: ["1", "1"], come: 2, sums: ["1", "1"], told: "" },
  ]) test(`says ${JSON.stringify(told)} for ${come} of ${amounts.length}`, () => assert.equal(words(amounts, come, sums), told));
});

describe("words on a wire", () => {
  const source = { x: 0, y: 0, width: 100, height: 40 };

  test("stand on its longest stretch, nearer to where the data goes", () => {
    const points = [{ x: 50, y: 40 }, { x: 50, y: 50 }, { x: 50, y: 150 }];
    assert.deepEqual(labelPosition(points, "0.5", source), { x: 50, y: 110 });
  });

  test("stand below what it comes from, where that stretch is too short for them", () => {
    const points = [{ x: 50, y: 40 }, { x: 80, y: 40 }];
    assert.deepEqual(labelPosition(points, "a rather long amount", source), { x: 50, y: 50.5 });
  });
});

describe("the player stops", () => {
  const model = nestedModel();
  const steps = [
    { ...REPLAY.steps[0] },
    { nodes: [15], title: "weight", subtitle: "", facts: [], arrivals: [], sums: [] },
    { ...REPLAY.steps[1] },
    { ...REPLAY.steps[2] },
  ];
  const played = new Replay(model, { ...REPLAY, steps });
  test("once for each visible box, however many steps it has", () => assert.deepEqual(played.stops(new Set()), [2, 4]));
  test("at each operation and leaf that is in sight", () => {
    assert.deepEqual(played.stops(new Set([encoder, attention, head])), [1, 2, 3, 4]);
  });
  test("with all that ran since the stop before running", () => {
    assert.equal(played.stateOf(head, 2, 0), "runs");
    assert.equal(played.stateOf(encoder, 4, 2), "runs");
    assert.equal(played.stateOf(head, 4, 2), "ran");
  });
});

test("of several alike that one item shows, the first to run is played, and the others are one stop", () => {
  const items = [item({ title: "Tanh", nodes: [1, 4, 7] }), item({ title: "Add", nodes: [2, 5, 8] }), item({ title: "Mul", nodes: [3] })];
  const model = new Model(documentOf(items, [column(null, [2, 1, 0])]));
  const steps = [8, 7, 5, 4, 2, 1, 3].map((node) => ({ ...REPLAY.steps[0], nodes: [node] }));
  assert.deepEqual(new Replay(model, { ...REPLAY, steps }).stops(new Set()), [1, 2, 6, 7]);
});
