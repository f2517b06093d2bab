// Makes page.js of the modules in src/; with --check, fails where page.js is not what they make.
import { build } from "esbuild";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const isCheck = process.argv.includes("--check");
const { outputFiles } = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.js"],
  outfile: "page.js",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "firefox115", "safari16.4"],
  charset: "ascii", // the hash in the page's policy must not depend on an encoding
  legalComments: "eof",
  write: !isCheck,
});
if (isCheck && outputFiles[0].text !== (await readFile(`${here}page.js`, "utf8"))) {
  console.error("gradviz/rendering/html_assets/page.js is not what src/ makes: run 'make page' and commit it");
  process.exit(1);
}
