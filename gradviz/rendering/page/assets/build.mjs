// Makes page.js of the modules in src/; with --check, fails where page.js is not what they make.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const { outputFiles, metafile } = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.js"],
  outfile: "page.js",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "firefox121", "safari16.4"],
  charset: "ascii", // the hash in the page's policy must not depend on an encoding
  metafile: true,
  write: false,
});
const script = outputFiles[0].text + (await licences(metafile.inputs));

if (!process.argv.includes("--check")) await writeFile(`${here}page.js`, script);
else if (script !== (await readFile(`${here}page.js`, "utf8"))) {
  console.error("gradviz/rendering/page/assets/page.js is not what src/ makes: run 'make page' and commit it");
  process.exit(1);
}

// Every page carries code of these packages, so it carries their licences, too.
async function licences(inputs) {
  const packages = new Set(Object.keys(inputs).flatMap((path) => /node_modules\/([^/]+)\//.exec(path)?.[1] ?? []));
  const byText = new Map();
  for (const name of [...packages].sort()) {
    const text = (await readFile(`${here}node_modules/${name}/LICENSE`, "utf8")).trim();
    byText.set(text, [...(byText.get(text) ?? []), name]);
  }
  return [...byText].map(([text, names]) => `/*! ${names.join(", ")}\n\n${text}\n*/\n`).join("");
}
