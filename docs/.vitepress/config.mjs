import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const docs = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const repository = "https://github.com/wakecall/wakecall";

// The order of the pages. A page that a folder has and this table does not is put at the end of that folder's group.
const groups = [
  {
    text: "Install",
    folder: "install",
    pages: ["install/index", "install/package", "install/container", "install/kubernetes", "install/source"],
  },
  { text: "Start", pages: ["first-callback", "concepts"] },
  {
    text: "Guides",
    folder: "guides",
    pages: [
      "guides/recipes",
      "guides/callbacks",
      "guides/receiving",
      "guides/clients",
      "guides/frameworks/index",
      "guides/frameworks/laravel",
      "guides/frameworks/spring",
      "guides/frameworks/express",
      "guides/frameworks/fastapi",
      "guides/frameworks/django",
      "guides/frameworks/gin",
      "guides/groups",
      "guides/flow-keys",
      "guides/wait",
      "guides/schedules",
      "guides/outbox",
      "guides/outbox-code",
      "guides/pull",
      "guides/testing",
      "guides/admin",
      "guides/alerts",
      "guides/assistant",
      "guides/migrate",
      "guides/migrate-from-lmstfy",
      "guides/migrate-from-php-delayqueue",
      "guides/migrate-from-delay-queue",
      "guides/migrate-from-grape",
      "guides/migrate-from-beanstalkd",
      "guides/migrate-from-rabbitmq",
    ],
  },
  {
    text: "Reference",
    folder: "reference",
    pages: [
      "reference/api",
      "reference/configuration",
      "reference/commands",
      "reference/metrics",
      "reference/gateways",
    ],
  },
  {
    text: "Operations",
    folder: "operations",
    pages: [
      "operations/index",
      "operations/production",
      "operations/redis",
      "operations/capacity",
      "operations/health",
      "operations/monitoring",
      "operations/tracing",
      "operations/outbox",
      "operations/sign-in",
      "operations/runbooks",
      "operations/troubleshooting",
      "operations/upgrade",
      "operations/backup",
      "operations/recovery",
      "operations/files-and-signals",
    ],
  },
  {
    text: "Promises and limits",
    pages: ["reliability", "reliability-report", "security", "benchmarks", "versions", "comparison"],
  },
  {
    text: "How it works",
    folder: "architecture",
    pages: ["architecture", "architecture/store", "architecture/recovery"],
  },
];

const file = (page) => join(docs, page + ".md");
const title = (page) => /^# (.*)/m.exec(readFileSync(file(page), "utf8"))[1].replaceAll("`", "");

function pagesOf({ folder, pages }) {
  const found = folder && existsSync(join(docs, folder)) ? readdirSync(join(docs, folder)) : [];
  const others = found.filter((name) => name.endsWith(".md")).map((name) => `${folder}/${name.slice(0, -3)}`);
  return [...new Set([...pages.filter((page) => existsSync(file(page))), ...others.sort()])];
}

const sidebar = groups
  .map((group) => ({
    text: group.text,
    items: pagesOf(group).map((page) => ({ text: title(page), link: "/" + page.replace(/index$/, "") })),
  }))
  .filter(({ items }) => items.length);

// As GitHub makes the anchors of headings, so that a link to one works in both places.
const slugify = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-");

// Links to files outside docs/ work on GitHub as they are. On the site they lead to the repository.
function linksToTheRepository(md) {
  md.core.ruler.push("links-to-the-repository", ({ tokens, env }) => {
    const links = tokens.flatMap((token) => token.children ?? []).filter((token) => token.type === "link_open");
    for (const link of links) {
      const [, path, anchor] = /^(\.[^#]*)(#.*)?$/.exec(link.attrGet("href")) ?? [];
      const target = path && resolve(dirname(env.path), path);
      if (!target || !relative(docs, target).startsWith("..")) continue;
      if (!existsSync(target)) throw new Error(`${env.path}: there is no ${path}`);
      link.attrSet("href", `${repository}/blob/main/${relative(join(docs, ".."), target)}${anchor ?? ""}`);
    }
  });
}

// Indented code looks, scrolls and is copied as fenced code does.
function indentedCodeAsFenced(md) {
  md.renderer.rules.code_block = (tokens, i, ...rest) => {
    tokens[i].info = "";
    return md.renderer.rules.fence(tokens, i, ...rest);
  };
}

export default {
  title: "Wakecall",
  description: "A delayed-callback dispatcher: push a job now, get it at your endpoint when it is due.",
  lang: "en",
  outDir: "../dist/docs",
  cacheDir: "../dist/docs-cache",
  head: [
    ["link", { rel: "icon", href: "data:image/svg+xml;base64," + readFileSync(join(docs, "../web/src/favicon.svg"), "base64") }],
    // Diagrams of lines: no gaps between them.
    ["style", {}, ".vp-doc .language-text code { line-height: 1.3 }"],
  ],
  markdown: {
    config(md) {
      linksToTheRepository(md);
      indentedCodeAsFenced(md);
    },
    anchor: { slugify },
  },
  // Examples name listeners of the reader's own machine.
  ignoreDeadLinks: "localhostLinks",
  themeConfig: {
    sidebar,
    outline: [2, 3],
    search: { provider: "local" },
    nav: [
      { text: "Install", link: "/install/" },
      { text: "First callback", link: "/first-callback" },
      { text: "API", link: "/reference/api" },
      { text: "Operations", link: "/operations/" },
    ].filter(({ link }) => existsSync(file(link.endsWith("/") ? `${link}index` : link))),
    socialLinks: [{ icon: "github", link: repository }],
  },
};
