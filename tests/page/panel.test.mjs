/** What the panel tells: numbers in words, formulas, the order of parameters. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { tokensOf } from "../../gradviz/rendering/page/assets/src/panel/formulas.js";
import { inOrder } from "../../gradviz/rendering/page/assets/src/panel/parameters.js";
import { fileName } from "../../gradviz/rendering/page/assets/src/picture/save-image.js";
import { bytes, counted, duration, figure } from "../../gradviz/rendering/page/assets/src/shared/number-words.js";

describe("numbers in words", () => {
  test("have three digits", () => {
    assert.deepEqual([null, 0, 0.12345, 1234.5, 1e-9, 123456].map((value) => figure(value)), ["–", "0", "0.123", "1230", "1.0e-9", "1.2e+5"]);
  });
  test("have units of bytes", () => {
    assert.deepEqual([0, 1023, 1024, 1536, 5 * 1024 ** 3].map(bytes), ["0 B", "1020 B", "1 KiB", "1.5 KiB", "5 GiB"]);
  });
  test("have units of time", () => {
    assert.deepEqual([2, 0.0123, 4.5e-6].map(duration), ["2 s", "12.3 ms", "4.5 µs"]);
  });
  test("are one, or many", () => assert.deepEqual([1, 2000].map((count) => counted(count, "thing")), ["1 thing", "2,000 things"]));
});

describe("parameters in order", () => {
  /** @param {Partial<import("../../gradviz/rendering/page/assets/src/document/types.js").PageParameter>} fields */
  const row = (fields) => ({ name: "w", shape: "", norm: null, ratio: null, status: "", is_lost: false, node: null, ...fields });
  const rows = [
    row({ name: "w10", norm: 1 }),
    row({ name: "w9", norm: 3, status: "shared" }),
    row({ name: "w1", status: "nothing arrived", is_lost: true }),
    row({ name: "w2", norm: 2 }),
  ];
  /**
   * @param {"name"|"norm"|"ratio"|"status"|null} by
   * @param {boolean} down
   */
  const names = (by, down) => inOrder(rows, { by, down }).map(({ name }) => name);

  test("are as in the model at first", () => assert.deepEqual(names(null, true), ["w10", "w9", "w1", "w2"]));
  test("by name count as people do", () => assert.deepEqual(names("name", false), ["w1", "w2", "w9", "w10"]));
  test("by gradient have what was not measured last, whichever way", () => {
    assert.deepEqual(names("norm", true), ["w9", "w2", "w10", "w1"]);
    assert.deepEqual(names("norm", false), ["w10", "w2", "w9", "w1"]);
  });
  test("by status have what is lost first, then what there is something to say of", () => {
    assert.deepEqual(names("status", true).slice(0, 2), ["w1", "w9"]);
  });
  test("leave the document as it is", () => assert.equal(rows[0].name, "w10"));
});

describe("a formula", () => {
  /** @param {string} text */
  const kinds = (text) => tokensOf(text)?.map(({ kind, text: part }) => `${kind} ${part}`) ?? null;

  test("is taken apart into words and signs", () => {
    assert.deepEqual(kinds("x̄ = 2 yᵀ"), ["letter x̄", "sign =", "number 2", "letter y", "sup ᵀ"]);
    assert.deepEqual(kinds("exp(x_(k))^2"), ["word exp", "open (", "letter x", "sub _(k)", "close )", "power ^", "number 2"]);
  });
  test("knows what stands right behind something", () => {
    assert.deepEqual(tokensOf("f(x) (y)")?.filter(({ kind }) => kind === "open").map(({ isJoined }) => isJoined), [true, false]);
  });
  test("with a sign that nobody knows is none", () => assert.equal(tokensOf("x = ☃"), null));
});

test("a picture is called after the script", () => {
  assert.deepEqual(["samples/gpt2.py --steps 3", "C:\\work\\my net.py", ".py"].map(fileName), ["gpt2", "my_net", "graph"]);
});
