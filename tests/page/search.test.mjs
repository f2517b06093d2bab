/** The query language of the search field. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EXAMPLES, parse } from "../../gradviz/rendering/page/assets/src/search/query.js";
import { searchableItems } from "../../gradviz/rendering/page/assets/src/search/searchable-items.js";
import { SimilarWords } from "../../gradviz/rendering/page/assets/src/search/similar-words.js";
import { nestedModel, NUMBERS, REPEATED, repeatedModel } from "./graphs.mjs";

const { encoder, attention, softmax, dropout, head, linear, weight } = NUMBERS;
const items = searchableItems(nestedModel());

/** @param {string} typed */
const found = (typed) => items.filter(parse(typed).fits).map(({ number }) => number);

describe("a query", () => {
  for (const { typed, numbers, what } of [
    { typed: "softmax", numbers: [softmax], what: "a word, in small letters or large" },
    { typed: "SOFTMAX", numbers: [softmax], what: "a word, in small letters or large" },
    { typed: "op:addmm", numbers: [linear], what: "an operation by what is below its title" },
    { typed: "op:head.weight", numbers: [], what: "no leaf as an operation" },
    { typed: "name:weight", numbers: [weight], what: "a name" },
    { typed: "module:attention", numbers: [attention, softmax, dropout], what: "what is in a module, too" },
    { typed: "shape:[8", numbers: [softmax], what: "a shape" },
    { typed: "line:net.py:7", numbers: [softmax], what: "a source line" },
    { typed: "saved>1MB", numbers: [softmax], what: "what keeps more" },
    { typed: "saved>=2e6", numbers: [softmax], what: "bytes without a unit" },
    { typed: "saved>1954KiB", numbers: [], what: "units of 1024" },
    { typed: "saved>1.95MiB", numbers: [], what: "units of 1024" },
    { typed: "saved>1.95MB", numbers: [softmax], what: "units of 1000" },
    { typed: "memory<1GB", numbers: [softmax], what: "memory, which is the same as saved, and only where it was measured" },
    { typed: "grad=0", numbers: [linear], what: "gradients that are zero" },
    { typed: "time>1ms", numbers: [linear], what: "times" },
    { typed: "time<=1500us", numbers: [], what: "times in other units" },
    { typed: "nan", numbers: [dropout], what: "NaN or Inf" },
    { typed: "finding", numbers: [dropout], what: "findings" },
    { typed: "/^Lin.ar$/", numbers: [], what: "a regular expression over all words of an item" },
    { typed: "/lin.ar/", numbers: [linear], what: "a regular expression" },
    { typed: "/(soft|drop)/ nan", numbers: [dropout], what: "only what fits all of it" },
    { typed: "encoder op:softmax", numbers: [], what: "only what fits all of it" },
    { typed: "unknown:thing", numbers: [], what: "a word with a colon" },
  ]) test(`finds ${what}: ${typed}`, () => assert.deepEqual(found(typed), numbers));

  test("that is empty finds everything", () => assert.equal(found("").length, items.length));

  for (const { typed, problem } of [
    { typed: "saved>1XB", problem: /^saved>1XB: not a number with a unit/ },
    { typed: "grad>1e", problem: /^grad>1e: not a number with a unit/ },
    { typed: "/(/", problem: /^\/\(\/: Invalid regular expression/ },
  ]) test(`that cannot be understood says why: ${typed}`, () => assert.match(parse(typed).problem, problem));

  test("of the help has no problem", () => {
    for (const { typed } of EXAMPLES) assert.equal(parse(typed).problem, "", typed);
  });
});

describe("what can be found", () => {
  test("has every item that is drawn by itself", () => assert.equal(items.length, Object.keys(NUMBERS).length));

  test("has boxes of several alike once", () => {
    const numbers = searchableItems(repeatedModel()).map(({ number }) => number);
    assert.equal(numbers.includes(REPEATED.blocks), true);
    assert.equal(numbers.includes(REPEATED.each), false);
  });
});

describe("words that are like what was typed", () => {
  const similar = new SimilarWords(items);

  test("are found for a word that was mistyped, the most alike first", () => {
    assert.equal(similar.to("sofmax").at(0), "softmax");
    assert.equal(similar.to("atention").at(0), "attention");
  });

  test("keep the field that was asked for", () => assert.equal(similar.to("op:sofmax").at(0), "op:softmax"));

  test("are not there for more than one word, or for what is like nothing", () => {
    assert.deepEqual(similar.to("two words"), []);
    assert.deepEqual(similar.to("zzqqx"), []);
  });

  test("stand for a box as well", () => assert.equal(similar.to("heat").includes("head"), true));
  test("of a module name its boxes", () => assert.deepEqual([found("encoder"), found("head")].map((all) => all.at(0)), [encoder, head]));
});
