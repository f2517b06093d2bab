/** Documents as the Python side writes them: the test that runs this puts some into a folder. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { env } from "node:process";
import { describe, test } from "node:test";
import { FIRST, hashOf, viewOf } from "../../gradviz/rendering/page/assets/src/app/address.js";
import { decodeCells, decodeDetails, decodeDocument } from "../../gradviz/rendering/page/assets/src/document/decode-document.js";
import { Connections } from "../../gradviz/rendering/page/assets/src/graph/connections.js";
import { Model } from "../../gradviz/rendering/page/assets/src/graph/model.js";
import { compose, rectOf } from "../../gradviz/rendering/page/assets/src/layout/compose-scene.js";
import { isWithin } from "../../gradviz/rendering/page/assets/src/layout/rectangles.js";
import { Replay } from "../../gradviz/rendering/page/assets/src/player/replay.js";

const folder = env.GRADVIZ_PAGE_DOCUMENTS;
if (!folder) throw new Error("run this by 'python -m pytest tests/page': it needs documents of graphs in GRADVIZ_PAGE_DOCUMENTS");
const names = readdirSync(folder).filter((name) => name.endsWith(".json"));

test("there are documents to read", () => assert.ok(names.length >= 2));

test("a legend has names for its colours", () => {
  const { document } = JSON.parse(readFileSync(join(folder, names[0]), "utf8"));
  const gradient = { words: "gradient", tints: [["step0", ""], ["plain", "none"]], is_scale: true };
  const { legends, roles } = decodeDocument({ ...document, legends: { gradient }, roles: { root: ["the loss", "M0 0", "M1 1"] } });
  assert.deepEqual(legends.gradient.tints, [{ tint: "step0", words: "" }, { tint: "plain", words: "none" }]);
  assert.deepEqual(roles.root, { words: "the loss", outline: "M0 0", inner: "M1 1" });
});

for (const name of names) {
  describe(name, () => {
    const content = JSON.parse(readFileSync(join(folder, name), "utf8"));
    const model = new Model(decodeDocument(content.document));
    const everything = model.withOpen(new Set(), model.boxesWithin(null, new Set()));

    test("has names for what the file has in lists", () => {
      const { shapes, boxes, legends, items } = model.document;
      assert.ok(shapes.every(({ front, inner, behind }) => front.startsWith("M") && typeof inner === "string" && Array.isArray(behind)));
      const placed = boxes.flatMap(({ clusters }) => clusters.flatMap((cluster) => cluster.items));
      assert.ok(placed.length && placed.every(({ item, x, y, route }) => items[item] && Number.isFinite(x) && Number.isFinite(y) && route.length % 2 === 0));
      assert.ok(Object.values(legends).every(({ tints }) => tints.every(({ tint, words }) => tint && typeof words === "string")));
      assert.ok(items.every(({ lines = [], source }) => lines.every(({ text }) => text) && (!source || (source.file && source.line > 0))));
    });

    for (const isSideways of [false, true]) test(`has every item within its box, however much is open, ${isSideways ? "sideways" : "upright"}`, () => {
      model.turn(isSideways);
      assert.equal(model.isSideways, isSideways);
      for (const opened of [new Set(model.document.opened), everything]) {
        const scene = compose(model, opened);
        for (const [number, rect] of [...scene.items, ...scene.open]) {
          const around = model.boxAround(number);
          const outer = around === null ? { ...scene } : rectOf(scene, around);
          assert.ok(outer && isWithin(rect, { x: outer.x - 1, y: outer.y - 1, width: outer.width + 2, height: outer.height + 2 }), `${number}`);
        }
      }
      model.turn(false);
    });

    test("leads back along wires from the root to operations", () => {
      const scene = compose(model, everything);
      const root = [...scene.items.keys()].find((number) => model.items[number].role === "root");
      assert.ok(root !== undefined);
      assert.ok(new Connections(scene).reached([root], "back").items.size > scene.items.size / 2);
    });

    test("has addresses for all that can be open", () => {
      const view = { ...FIRST, opened: everything, colour: model.firstColour };
      assert.deepEqual(new Set(viewOf(model, `#${hashOf(model, view)}`).opened), everything);
    });

    test("has details for every item, with the lines of their callers", () => {
      const details = decodeDetails(content.details);
      assert.equal(details.length, model.items.length);
      assert.ok(details.every(({ callers = [] }) => callers.every(({ file, line }) => file && line > 0)));
    });

    test("has steps in which every operation runs at most once more than it is shown", () => {
      assert.ok(model.document.replay);
      const replay = new Replay(model, model.document.replay);
      assert.ok(replay.length > 0);
      const last = [...replay.stepsOf.keys()].map((number) => replay.stateOf(number, replay.length));
      assert.ok(last.every((state) => state === "ran" || state === "runs"));
      assert.ok(replay.steps.every(({ arrivals }, at) => arrivals.every(({ step }) => step <= at)));
    });

    test("has cells of memory that lie in one another", () => {
      const { memory } = model.document;
      assert.ok(memory);
      for (const by of /** @type {const} */ (["by_module", "by_line"])) {
        const cells = decodeCells(memory, by);
        assert.ok(cells.every(({ around, bytes, title }, at) => (around === null ? at === 0 : around < at) && bytes >= 0 && typeof title === "string"));
      }
    });
  });
}
