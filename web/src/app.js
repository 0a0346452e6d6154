// The admin's own script. Pages work without it except for live numbers, charts and dialogs.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);

  // --- live parts: one stream per page -------------------------------------------------------------------------------
  // <body data-events="/events?on=strip,overview">; <div data-live="overview"> gets the event's HTML. Every event is also
  // dispatched as the DOM event "live" with {name, data}. A hidden page has no stream and polls nothing.
  let stream = null;
  function names() {
    const found = [...document.querySelectorAll("[data-live]")].map((e) => e.dataset.live);
    return [...new Set(found)].sort();
  }
  function open() {
    const base = document.body.dataset.events;
    const on = names();
    if (!base || stream || on.length === 0 || document.hidden) return;
    stream = new EventSource(base + "?on=" + encodeURIComponent(on.join(",")));
    for (const name of on) stream.addEventListener(name, (e) => show(name, e.data));
    stream.addEventListener("bye", () => { close(); setTimeout(open, 1000 + Math.random() * 2000); });
    stream.onopen = () => document.body.classList.remove("wk-offline");
    stream.onerror = () => {
      document.body.classList.add("wk-offline");
      if (!stream || stream.readyState !== EventSource.CLOSED) return;
      close();
      setTimeout(open, 5000 + Math.random() * 5000);
    };
  }
  function close() {
    if (stream) stream.close();
    stream = null;
  }
  function show(name, data) {
    for (const e of document.querySelectorAll(`[data-live="${CSS.escape(name)}"]`)) {
      if (e.contains(document.activeElement) && document.activeElement !== document.body) continue;
      if (e.contains(asked)) continue; // a form that is removed from the page sends nothing
      e.innerHTML = data; // rendered by html/template of this server
      window.htmx && htmx.process(e);
      enhance(e);
    }
    document.dispatchEvent(new CustomEvent("live", { detail: { name, data } }));
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { close(); return; }
    open();
    for (const e of document.querySelectorAll('[hx-trigger*="shown"]')) htmx.trigger(e, "shown");
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && /every/.test(event.detail.elt.getAttribute("hx-trigger"))) event.preventDefault();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);

  // --- confirmation --------------------------------------------------------------------------------------------------
  // <form data-confirm="Delete it?" data-confirm-word="shop.close" data-confirm-label="Delete">
  const dialog = () => $("#wk-confirm");
  let asked = null; // the form that the open dialog confirms
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const by = event.submitter;
    const text = (by && by.dataset.confirm) || form.dataset.confirm;
    if (!text || form.dataset.confirmed) {
      delete form.dataset.confirmed;
      if (form.method === "post" && !begin(form)) { event.preventDefault(); event.stopImmediatePropagation(); }
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
    asked = form;
    const word = (by && by.dataset.confirmWord) || form.dataset.confirmWord || "";
    const label = (by && by.dataset.confirmLabel) || form.dataset.confirmLabel;
    ask(text, word, label, () => {
      form.dataset.confirmed = "yes";
      form.requestSubmit(by || undefined);
    });
  }, true);
  // A form is not sent again while its request is in progress: a double click would push a job twice.
  let underWay = new WeakMap(); // when forms were sent
  function begin(form) {
    if (Date.now() - (underWay.get(form) || 0) < 10000) return false;
    underWay.set(form, Date.now());
    return true;
  }
  document.addEventListener("htmx:afterRequest", (event) => underWay.delete(event.target));
  window.addEventListener("pageshow", () => { underWay = new WeakMap(); });
  function ask(text, word, label, yes) {
    const d = dialog();
    const input = $("input", d);
    const ok = $("[data-ok]", d);
    $("[data-text]", d).textContent = text;
    $("[data-word-row]", d).hidden = !word;
    $("[data-word]", d).textContent = word;
    ok.textContent = label || ok.dataset.ok;
    input.value = "";
    ok.disabled = Boolean(word);
    input.oninput = () => { ok.disabled = input.value !== word; };
    $("[data-cancel]", d).onclick = () => d.close();
    d.onclose = () => { asked = null; if (d.returnValue === "ok" && (!word || input.value === word)) yes(); };
    d.returnValue = "";
    d.showModal();
    if (word) input.focus();
  }

  // A page that refreshes itself skips forms with an open dialog or input in progress, and retries in a second.
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const typing = document.activeElement.matches("input, textarea") && event.target.contains(document.activeElement);
    if (event.target.id !== "wk-flash" && (asked || typing)) event.preventDefault();
  });

  // --- small behaviors by attribute ----------------------------------------------------------------------------------
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const from = button.dataset.copy ? $(button.dataset.copy) : null;
    const text = from ? (from.value ?? from.textContent) : button.dataset.copyText || "";
    if (await copy(text)) {
      button.classList.add("wk-copied");
      $("#wk-status").textContent = document.body.dataset.copied;
      setTimeout(() => button.classList.remove("wk-copied"), 1500);
    }
  });
  async function copy(text) {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* plain http: the old way */ }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
  // <select data-submit> sends its form when changed; <input type=checkbox data-check-all="name"> sets all of a name, within
  // its <tbody> if it is in one.
  document.addEventListener("change", (event) => {
    const e = event.target;
    if (e.matches("[data-submit]")) e.form.requestSubmit();
    for (const box of (e.closest("tbody") || document).querySelectorAll(`[name="${e.dataset.checkAll}"]`)) {
      if (box.type === "checkbox") box.checked = e.checked;
    }
  });
  // <form data-stale="#part">: when the form changes, the buttons in the part are disabled until its count is updated.
  document.addEventListener("input", (event) => {
    const part = event.target.form && event.target.form.dataset.stale;
    if (part) for (const button of $(part).querySelectorAll("button")) button.disabled = true;
  });
  // "/" and ctrl-K focus the search box; the arrow keys move through its results; "?" lists the keys.
  document.addEventListener("keydown", (event) => {
    const search = $("#wk-search");
    if (!search) return;
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    const held = event.ctrlKey || event.metaKey;
    if (event.key === "k" && held || event.key === "/" && !typing && !held && !event.altKey) {
      event.preventDefault();
      search.focus();
      search.select();
    }
    if (event.key === "?" && !typing && !held && !$("dialog[open]")) $("#wk-keys").showModal();
    if (!event.target.closest(".wk-search")) return;
    const found = [...$("#wk-found").querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      (found[found.indexOf(event.target) + step] || search).focus();
    } else if (event.key === "Escape") { showFound(false); search.focus(); }
  });
  function showFound(on) {
    const list = $("#wk-found");
    if (!list) return;
    list.classList.toggle("show", on && list.childElementCount > 0);
    $("#wk-search").setAttribute("aria-expanded", String(on && list.childElementCount > 0));
  }
  document.addEventListener("htmx:afterSwap", (event) => { if (event.target.id === "wk-found") showFound(true); });
  document.addEventListener("focusin", (event) => { if (!event.target.closest(".wk-search")) showFound(false); });
  document.addEventListener("click", (event) => { if (!event.target.closest(".wk-search")) showFound(false); });

  // --- the menu and the tab title show the number of open problems ---------------------------------------------------
  const title = document.title;
  function count(wrong, urgent) {
    for (const badge of document.querySelectorAll("[data-count-of]")) {
      const n = wrong[badge.dataset.countOf] || 0;
      badge.className = "badge " + (urgent.includes(badge.dataset.countOf) ? "bg-red text-white" : "bg-secondary-lt");
      badge.textContent = n > 999 ? "999+" : n;
      badge.hidden = !n;
    }
    document.title = (wrong.overview ? `(${wrong.overview}) ` : "") + title;
  }

  // --- times: all in the zone that the user chose --------------------------------------------------------------------
  const zone = known(document.documentElement.dataset.zone);
  function known(choice) { // undefined: the browser's; it may not know every zone that the server knows
    try { return new Intl.DateTimeFormat("en", { timeZone: choice }) && choice; } catch { return undefined; }
  }
  // 2026-11-22 17:03:12
  const iso = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  const full = (at) => iso.format(at);
  const atForms = {
    full,
    clock: (at) => full(at).slice(11, 16),
    short: (at) => (full(at).slice(0, 10) === full(new Date()).slice(0, 10)
      ? full(at).slice(11)
      : full(at).slice(5, 16)),
  };

  // --- charts --------------------------------------------------------------------------------------------------------
  // <div class="wk-chart" data-chart="/overview/chart?span=15m" data-chart-every="10">, which answers
  // {"at": [unix seconds], "series": [{"label", "color", "values", "dash"}], "unit": "/s", "axis": "per second"}, and if
  // the values are old or unknown "note", "noteAt" and "none".
  // data-chart-json holds the same without a request. The charts that load their data have the range of the page: the
  // crosshair is in all of them, and dragging in one opens the page with the selected range.
  const charts = new Map();
  const palette = ["--tblr-blue", "--tblr-green", "--tblr-red", "--tblr-orange", "--tblr-purple", "--tblr-cyan"];
  // A canvas supports neither variables nor color-mix(), so an element computes the color.
  const css = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const color = getComputedStyle(probe).color;
    probe.remove();
    return color;
  };
  // The time axis in the reader's language, without seconds, and with the date where a new day begins.
  const minute = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone };
  const date = { month: "short", day: "numeric", timeZone: zone };
  const clock = new Intl.DateTimeFormat(document.documentElement.lang, minute);
  const day = new Intl.DateTimeFormat(document.documentElement.lang, date);
  const moment = new Intl.DateTimeFormat(document.documentElement.lang, { ...date, ...minute, second: "2-digit" });
  const ticks = (_, list) => list.map((t, i) => {
    const at = new Date(t * 1000);
    const midnight = clock.format(at) === "00:00";
    return midnight || (i > 0 && t - list[i - 1] >= 86400) ? day.format(at) : clock.format(at);
  });
  const rounded = (n, by, unit) => +(n / by).toFixed(n / by < 10 ? 1 : 0) + unit;
  const units = (document.body.dataset.units || "").split("|"); // of milliseconds, seconds, minutes, hours
  const milliseconds = (n) => {
    if (n < 1000) return +n.toPrecision(3) + units[0];
    if (n < 120e3) return rounded(n, 1e3, units[1]);
    return n < 72e5 ? rounded(n, 6e4, units[2]) : rounded(n, 36e5, units[3]);
  };
  const formatted = (n, unit) => (n == null ? "–" : unit === "ms" ? milliseconds(n) : short(n) + (unit || ""));
  const short = (n) => {
    if (Math.abs(n) >= 1e6) return +(n / 1e6).toFixed(1) + "M";
    return Math.abs(n) >= 1e4 ? +(n / 1e3).toFixed(1) + "k" : String(+n.toPrecision(n < 1e3 ? 3 : 4));
  };
  const onTheAxis = (n, unit) => (unit === "ms" ? milliseconds(n) : short(n)); // other units stand beside the axis
  const crosshair = { key: "range", filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } };
  function zoom(plot) {
    const { left, width } = plot.select;
    if (width < 5) return; // a click
    const url = new URL(location.href);
    for (const [name, x] of [["from", left], ["to", left + width]]) {
      url.searchParams.set(name, new Date(plot.posToVal(x, "x") * 1000).toISOString().slice(0, 19) + "Z");
    }
    location.assign(url);
  }
  // Draws the events of the page's list, <li data-mark="unix seconds" data-mark-end data-kind>, into a chart: those that
  // last as one band for each kind, and a handle with the texts of those that begin at the same place. The handles of
  // the first chart can be reached by keyboard.
  const marksApart = 24; // pixels between handles
  const marksTold = 5; // the texts of a handle; the list has the others
  const markKinds = ["edit", "endpoint", "pause", "alert", "critical"]; // a handle has the color of its last one here
  function drawMarks(plot) {
    if (plot.over.contains(document.activeElement)) return;
    for (const old of plot.over.querySelectorAll(".wk-mark, .wk-mark-line, .wk-mark-band")) old.remove();
    const first = plot.root.parentElement === $("[data-chart]");
    // The newest event is later than all numbers.
    const place = (time) => Math.min(Math.max(0, plot.valToPos(Number(time), "x")), plot.over.clientWidth);
    const bands = new Map();
    let last = null;
    for (const event of [...document.querySelectorAll("[data-mark]")].reverse()) {
      const { mark, markEnd, kind } = event.dataset;
      const left = place(mark);
      if (markEnd) bands.set(kind, extended(bands.get(kind), left, place(markEnd)));
      if (!last || left - last.left > marksApart) last = { left, handle: handle(event, left, plot, first) };
      tell(last.handle, event);
    }
    for (const kind of markKinds) {
      for (const [left, right] of bands.get(kind) || []) {
        const band = document.createElement("i");
        band.className = "wk-mark-band";
        band.dataset.kind = kind;
        band.style.left = left + "px";
        band.style.width = Math.max(2, right - left) + "px";
        plot.over.append(band);
      }
    }
  }
  // Adds a span to spans in the order in which they begin: those that overlap become one.
  function extended(spans = [], left, right) {
    const before = spans.at(-1);
    if (before && left <= before[1] + 1) before[1] = Math.max(before[1], right);
    else spans.push([left, right]);
    return spans;
  }
  // Adds an event to a handle.
  function tell(link, event) {
    const { kind } = event.dataset;
    if (markKinds.indexOf(kind) > markKinds.indexOf(link.dataset.kind)) {
      link.dataset.kind = link.nextSibling.dataset.kind = kind;
    }
    const told = link.firstChild;
    const text = document.createElement("span");
    text.textContent = [clock.format(Number(event.dataset.mark) * 1000),
      $(".badge", event).textContent, $("[data-mark-text]", event).textContent].join(" ").replace(/\s+/g, " ");
    told.prepend(text); // the newest first
    link.dataset.more = Number(link.dataset.more) + (told.childElementCount > marksTold ? 1 : 0);
    if (told.childElementCount > marksTold) told.lastChild.remove();
    const more = Number(link.dataset.more) ? "+" + link.dataset.more : "";
    told.dataset.more = more;
    link.setAttribute("aria-label", [...told.children].map((e) => e.textContent).concat(more || []).join("; "));
  }
  function handle(event, left, plot, first) {
    const link = document.createElement("a");
    link.className = "wk-mark" + (left > plot.over.clientWidth / 2 ? " wk-mark-right" : "");
    link.href = "#" + event.id;
    link.tabIndex = first ? 0 : -1;
    link.dataset.kind = event.dataset.kind;
    link.dataset.more = 0;
    link.style.left = left + "px";
    link.addEventListener("mousedown", (e) => e.stopPropagation()); // no selection begins
    link.append(document.createElement("span"));
    const line = document.createElement("i");
    line.className = "wk-mark-line";
    line.dataset.kind = event.dataset.kind;
    line.style.left = left + "px";
    plot.over.append(link, line);
    return link;
  }

  // Points without neighbors, which no line shows.
  const isolated = (plot, i) => plot.data[i].flatMap((v, at, all) =>
    (v != null && all[at - 1] == null && all[at + 1] == null ? [at] : []));
  function draw(box, data, redraw) {
    if (!window.uPlot || !box.isConnected) return;
    const old = charts.get(box);
    const values = [data.at, ...data.series.map((s) => s.values)];
    box.dataset.note = (data.note || "").replace("{0}", clock.format(new Date((data.noteAt || 0) * 1000)));
    if (data.none) box.dataset.none = data.none;
    box.classList.toggle("wk-no-data", values.slice(1).flat().every((v) => v == null));
    if (old && !redraw && old.plot.series.length === values.length) { // keeps the values under the pointer
      old.data = data;
      old.plot.setData(values);
      if (!$(".wk-chart:hover")) old.newest();
      return;
    }
    if (old) old.plot.destroy();
    box.replaceChildren();
    const grid = { stroke: css("--tblr-border-color"), width: 1 };
    const shared = Boolean(box.dataset.chart);
    const axis = { stroke: css("--tblr-secondary"), grid, ticks: { show: false }, font: "11px system-ui" };
    const plot = new uPlot({
      width: Math.max(box.clientWidth, 200), height: Number(box.dataset.chartHeight) || 220,
      cursor: shared ? { y: false, sync: crosshair, drag: { x: true, y: false, setScale: false } } : { y: false },
      hooks: shared ? { setSelect: [zoom], draw: [drawMarks] } : {},
      axes: [
        { ...axis, size: 30, values: ticks, space: 70 },
        {
          ...axis, size: 56, label: data.axis, labelSize: 14, labelGap: 0, labelFont: "11px system-ui",
          values: (_, list) => list.map((n) => onTheAxis(n, data.unit)),
        },
      ],
      scales: { y: { range: (_, min, max) => [Math.min(0, min || 0), max > 0 ? max * 1.1 : 1] } },
      series: [
        { label: data.time || "Time", value: (_, t) => (t == null ? "" : moment.format(new Date(t * 1000))) },
        ...data.series.map((s, i) => {
          const color = css(s.color ? "--tblr-" + s.color : palette[i % palette.length]);
          return {
            label: s.label, stroke: color, width: 2, dash: s.dash ? [6, 4] : undefined,
            points: { show: true, size: 5, fill: color, filter: isolated }, value: (_, n) => formatted(n, data.unit),
          };
        }),
      ],
    }, values, box);
    // The legend shows the newest values while the pointer is elsewhere.
    const newest = () => {
      if (plot.data[0].length > 0 && box.isConnected) plot.setLegend({ idx: plot.data[0].length - 1 });
    };
    const all = () => { for (const c of charts.values()) c.newest(); };
    plot.over.addEventListener("mouseleave", () => setTimeout(all, 50));
    setTimeout(newest, 50); // after uPlot's own first reading of the pointer
    charts.set(box, { plot, data, newest });
  }
  async function load(box) {
    if (document.hidden || !box.isConnected) return;
    try {
      const answer = await fetch(box.dataset.chart, { headers: { Accept: "application/json" } });
      if (answer.ok) draw(box, await answer.json());
    } catch { /* the server is away; the next time */ }
  }
  setInterval(() => {
    for (const [box] of charts) if (!box.isConnected) { charts.get(box).plot.destroy(); charts.delete(box); }
    for (const box of document.querySelectorAll("[data-chart-every]")) {
      const every = Math.max(5, Number(box.dataset.chartEvery)) * 1000;
      const { top, bottom } = box.getBoundingClientRect();
      if (bottom < 0 || top > innerHeight) continue; // it is loaded when it is scrolled to
      if (Date.now() - (Number(box.dataset.loaded) || 0) >= every) { box.dataset.loaded = Date.now(); load(box); }
    }
  }, 1000);
  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const c = charts.get(target);
      if (!c || target.clientWidth === 0 || c.plot.width === target.clientWidth) continue;
      c.plot.setSize({ width: target.clientWidth, height: c.plot.height });
    }
  });
  new MutationObserver(() => { for (const [box, c] of charts) draw(box, c.data, true); })
    .observe(document.documentElement, { attributes: true, attributeFilter: ["data-bs-theme"] });

  // A table that is wider than its place is scrolled with the arrow keys, so it can have the focus, and a name.
  function reach(table) {
    const title = $(".card-title, caption", table.closest(".card") || table) || $(".page-title");
    const wide = table.scrollWidth > table.clientWidth;
    if (wide) table.tabIndex = 0;
    else table.removeAttribute("tabindex");
    table.role = wide ? "region" : null;
    table.ariaLabel = wide ? title.textContent.trim() : null;
  }
  window.addEventListener("resize", () => document.querySelectorAll(".table-responsive").forEach(reach));

  function enhance(root) {
    for (const box of root.querySelectorAll("[data-chart], [data-chart-json]")) {
      if (box.dataset.ready) continue;
      box.dataset.ready = "yes";
      resized.observe(box);
      if (box.dataset.chartJson) draw(box, JSON.parse(box.dataset.chartJson));
      else { box.dataset.loaded = Date.now(); load(box); }
    }
    if (root.querySelector(".wk-events")) for (const [box, c] of charts) if (box.dataset.chart) drawMarks(c.plot);
    const wrong = root.querySelector("[data-wrong]");
    if (wrong) count(JSON.parse(wrong.dataset.wrong), wrong.dataset.urgent.split(" "));
    for (const table of root.querySelectorAll(".table-responsive")) reach(table);
    for (const cell of root.querySelectorAll(".wk-stack > tbody > tr > td:not([colspan])")) {
      cell.dataset.label = cell.closest("table").tHead.rows[0].cells[cell.cellIndex].textContent.trim();
    }
    for (const bar of root.querySelectorAll("[data-width]")) bar.style.width = bar.dataset.width + "%";
    for (const part of root.querySelectorAll("time[datetime] [data-at]")) {
      const time = part.closest("time");
      if (time.title) continue;
      const at = new Date(time.dateTime);
      part.textContent = atForms[part.dataset.at](at);
      time.title = full(at) + " " + (zone || Intl.DateTimeFormat().resolvedOptions().timeZone);
    }
  }
  for (const event of ["htmx:afterSettle", "htmx:oobAfterSwap"]) {
    document.addEventListener(event, (e) => enhance(e.target));
  }
  document.addEventListener("DOMContentLoaded", () => {
    for (const name of document.querySelectorAll("[data-zone-name]")) {
      name.textContent = zone || Intl.DateTimeFormat().resolvedOptions().timeZone;
    }
    enhance(document);
    if (matchMedia("(max-width: 767.98px)").matches) {
      for (const filters of document.querySelectorAll("details[data-fold]")) filters.open = false;
    }
    const tab = $(".nav-tabs .active"); // beyond the edge of a narrow screen, if the tabs are not scrolled
    const tabs = $(".nav-tabs");
    if (tab) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft;
    open();
  });
})();
