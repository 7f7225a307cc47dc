// Bundles the page's script and style into dist/, with the licences of what is
// in the bundle. The result is committed: building contend needs only Go.
import * as esbuild from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const result = await esbuild.build({
  entryPoints: { page: "src/main.js" },
  outdir: "dist",
  bundle: true,
  minify: true,
  // d3-flame-graph recognises laid-out data by the class name "Node".
  keepNames: true,
  format: "iife",
  target: ["es2020"],
  charset: "ascii",
  legalComments: "none",
  metafile: true,
});

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const match = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (match) packages.add(match[1]);
}
let text = "";
for (const name of [...packages].sort()) {
  const dir = join("node_modules", name);
  const about = JSON.parse(readFileSync(join(dir, "package.json"), "utf8"));
  const licence = ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE"].map((f) => {
    try {
      return readFileSync(join(dir, f), "utf8");
    } catch {
      return "";
    }
  }).find((s) => s !== "");
  if (!licence) throw new Error(`${name} in ${dirname(dir)} has no licence file`);
  text += `${name} ${about.version} (${about.license})\n\n${licence.trim()}\n\n${"-".repeat(72)}\n\n`;
}
writeFileSync("dist/licenses.txt", text.trimEnd() + "\n");

// What the bundle was made from, so that a test without npm sees a stale one.
const sources = ["build.mjs", "package-lock.json", ...readdirSync("src").sort().map((f) => `src/${f}`)];
const sums = sources.map((f) => `${createHash("sha256").update(readFileSync(f)).digest("hex")}  ${f}\n`);
writeFileSync("dist/SHA256SUMS", sums.join(""));
