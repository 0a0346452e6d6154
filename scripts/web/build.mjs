// Copies what the web admin and the API's documentation take from npm, and their own sources, into web/dist, with a hash of the content in each name.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const out = "web/dist";
const npm = (path) => readFileSync(join("node_modules", path), "utf8");
const own = (name) => readFileSync(join("web/src", name), "utf8");
const withoutMap = (text) => text.replace(/\/[*/][#@] sourceMappingURL=.*?(\*\/)?\s*$/s, "\n");

// Every icon of the list becomes a symbol of one sprite: <use href="icons.svg#NAME">.
function sprite() {
  const names = readFileSync("scripts/web/icons.txt", "utf8").split("\n").filter(Boolean);
  const symbols = names.map((name) => {
    const file = join("node_modules/@tabler/icons/icons/outline", name + ".svg");
    if (!existsSync(file)) throw new Error(`scripts/web/icons.txt: there is no icon ${name}`);
    const svg = readFileSync(file, "utf8");
    const inner = svg.slice(svg.indexOf(">", svg.indexOf("<svg")) + 1, svg.lastIndexOf("</svg>"));
    return `<symbol id="${name}" viewBox="0 0 24 24">${inner.replace(/\s+/g, " ").trim()}</symbol>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg">\n${symbols.join("\n")}\n</svg>\n`;
}

const assets = {
  "tabler.css": npm("@tabler/core/dist/css/tabler.min.css"),
  "tabler.js": npm("@tabler/core/dist/js/tabler.min.js"),
  "htmx.js": npm("htmx.org/dist/htmx.min.js"),
  "uplot.css": npm("uplot/dist/uPlot.min.css"),
  "uplot.js": npm("uplot/dist/uPlot.iife.min.js"),
  "swagger-ui.css": npm("swagger-ui-dist/swagger-ui.css"),
  "swagger-ui.js": npm("swagger-ui-dist/swagger-ui-bundle.js"),
  "apidocs.css": own("apidocs.css"),
  "apidocs.js": own("apidocs.js"),
  "app.css": own("app.css"),
  "app.js": own("app.js"),
  "theme.js": own("theme.js"),
  "favicon.svg": own("favicon.svg"),
  "icons.svg": sprite(),
};

// What a package's bundle holds of others.
function bundled(name) {
  const files = ["NOTICE", "swagger-ui-bundle.js.LICENSE.txt"].map((f) => join("node_modules", name, f));
  return files.filter(existsSync).map((f) => readFileSync(f, "utf8").trim());
}

const licenses = ["@tabler/core", "@tabler/icons", "htmx.org", "swagger-ui-dist", "uplot"].map((name) => {
  const { version } = JSON.parse(npm(join(name, "package.json")));
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((f) => join("node_modules", name, f)).find(existsSync);
  const text = file ? readFileSync(file, "utf8").trim() : "MIT";
  return [`${name} ${version}`, text, ...bundled(name)].join("\n\n") + "\n";
});

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const manifest = {};
for (const [name, text] of Object.entries(assets)) {
  const content = withoutMap(text);
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 10);
  const dot = name.lastIndexOf(".");
  manifest[name] = `${name.slice(0, dot)}.${hash}${name.slice(dot)}`;
  writeFileSync(join(out, manifest[name]), content);
}
writeFileSync(join(out, "manifest.json"), JSON.stringify(manifest, null, 2) + "\n");
writeFileSync(join(out, "LICENSES.txt"), licenses.join("\n----\n\n"));
