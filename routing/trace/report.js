"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
function make(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = text;
  if (className) element.className = className;
  return element;
}
// Names may break after their signs and not in mid-word or in a number; a very long one scrolls in a box of its own.
const LONG = 72;
function named(element, text) {
  for (const word of text.split(/(?<= )/)) {
    const home = word.length > LONG ? element.appendChild(make("span", null, "long")) : element;
    for (const part of word.split(/(?<=[./@:_-])(?!(?<=\d[.:-])\d)/)) home.append(part, make("wbr"));
  }
  return element;
}
const routeId = (smuid) => "route " + smuid;
const count = (n) => n === null || n === undefined ? "unknown" : Number(n).toLocaleString("en");
const counted = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
const ms = (us) => us === null || us === undefined ? "unknown" : (us / 1000).toLocaleString("en", { maximumFractionDigits: 1 }) + " ms";
const moment = (us) => !us ? "" : new Date(us / 1000).toISOString().replace("T", " ").slice(0, 23);
const loss = (link) => link.lost === null || !link.tried ? null : link.lost / link.tried;
// what is told of a link's attempts, of which some days may tell nothing
const known = (link, text) => link.unknown_days && link.unknown_days < link.days ? `${text} (unknown on ${link.unknown_days} of ${link.days} days)` : text;
const percent = (share) => share === null ? "unknown" : (100 * share).toFixed(2) + " %";

function figures() {
  const s = data.summary, b = s.balance;
  const shown = [
    ["messages", s.messages.total], ["routes complete", s.messages.complete],
    ["routes in part", s.messages.partial, s.messages.partial ? "bad" : ""],
    ["copies", b.published + b.received + b.begin_missing], ["finished", b.finished], ["held", b.held],
    ["copies lost", b.lost, b.lost ? "bad" : "good"], ["log missing", b.log_missing, b.log_missing ? "bad" : "good"],
  ];
  for (const [name, value, mood] of shown) {
    const box = make("div", null, "figure " + (mood || ""));
    box.append(make("b", count(value)), name);
    $("figures").append(box);
  }
  named($("head"), (data.day ? data.day : s.days.join(", ") || "no messages") + " · " + counted(s.logs.records, "record") + " of "
    + counted(s.logs.servers, "server") + " · " + (b.closes === null ? "no copies" : "the balance " + (b.closes ? "closes" : "does not close"))
    + (data.logs.absent ? " · no log of " + data.logs.absent : "")
    + (data.logs.gaps ? " · gaps in the log of " + data.logs.gaps : ""));
}

// A table of `rows`: columns are [title, value for sorting, text]. Click a head to sort; type to filter.
// `options.total`: how many there are, where the page has only some: which, says `options.order`.
function table(home, columns, rows, options = {}) {
  const bar = make("div", null, "filter");
  const input = make("input");
  input.type = "search";
  input.placeholder = "filter";
  input.setAttribute("aria-label", "filter " + home);
  const shownCount = make("span");
  bar.append(input, shownCount);
  const head = make("tr"), body = make("tbody");
  const numeric = columns.map(([, value]) => rows.some((row) => typeof value(row) === "number"));
  let sorted = -1, upward = false;
  const texts = rows.map((row) => columns.map(([, value, text]) => String((text || value)(row) ?? "")));
  const order = rows.map((_, i) => i);
  function draw() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    body.replaceChildren();
    let shown = 0;
    for (const i of order) {
      const all = texts[i].join(" ").toLowerCase();
      if (!words.every((word) => all.includes(word))) continue;
      if (options.only && !options.only(rows[i])) continue;
      shown += 1;
      const line = make("tr", null, options.bad && options.bad(rows[i]) ? "bad" : "");
      texts[i].forEach((text, c) => line.append(
        numeric[c] ? make("td", text, "number") : named(make("td", null, text.length > LONG ? "sentence" : ""), text)));
      if (options.choose) options.choose(rows[i], line);
      body.append(line);
    }
    const all = options.total > rows.length ? `${count(rows.length)}; ${options.order} of ${count(options.total)}` : count(rows.length);
    shownCount.textContent = `${count(shown)} of ${all}`;
  }
  columns.forEach(([title, value], c) => {
    const cell = make("th", title, numeric[c] ? "number" : "");
    cell.addEventListener("click", () => {
      upward = sorted === c ? !upward : !numeric[c];
      sorted = c;
      const sign = upward ? 1 : -1;
      order.sort((a, b) => {
        const x = value(rows[a]), y = value(rows[b]);
        if (x === y) return a - b;
        if (x === null || x === undefined) return 1;
        if (y === null || y === undefined) return -1;
        return x < y ? -sign : sign;
      });
      draw();
    });
    head.append(cell);
  });
  input.addEventListener("input", draw);
  const whole = make("table"), top = make("thead"), scroll = make("div", null, "scroll");
  top.append(head);
  whole.append(top, body);
  scroll.append(whole);
  $(home).append(bar, scroll);
  draw();
  return draw;
}

let chosen = null, redrawLinks = () => {};
function map() {
  const space = "http://www.w3.org/2000/svg", graph = $("graph");
  // what is drawn in units of the map looks as large on a telephone as on a wide screen
  const px = 1120 / Math.min(1120, graph.clientWidth || 1120);
  const first = (server) => server.split(".")[0];
  const short = new Map();
  for (const site of data.sites) if (site.linked) short.set(first(site.server), (short.get(first(site.server)) || 0) + 1);
  const at = Object.fromEntries(data.sites.map((site) => [site.server, [1000 * site.x, 700 * site.y]]));
  const most = Math.max(1, ...data.links.map((link) => link.messages));
  const slowest = Math.max(1, ...data.links.map((link) => link.delay_p50_us || 0));
  graph.replaceChildren();
  for (const link of data.links) {
    if (!at[link.from] || !at[link.to]) continue;
    const [x1, y1] = at[link.from], [x2, y2] = at[link.to];
    const far = Math.hypot(x2 - x1, y2 - y1) || 1, aside = 4 * px;
    const line = document.createElementNS(space, "line");
    const dx = -(y2 - y1) / far * aside, dy = (x2 - x1) / far * aside;
    for (const [name, value] of [["x1", x1 + dx], ["y1", y1 + dy], ["x2", x2 + dx], ["y2", y2 + dy]]) line.setAttribute(name, value);
    const part = $("shade").value === "delay"
      ? (link.delay_p50_us === null ? null : link.delay_p50_us / slowest)
      : (loss(link) === null ? null : Math.min(1, loss(link) * 10));
    line.setAttribute("stroke", part === null ? "#98a2b3" : `hsl(${Math.round(140 * (1 - part))} 65% 45%)`);
    line.setAttribute("stroke-width", px * (1 + 5 * Math.sqrt(link.messages / most)));
    if (part === null) line.setAttribute("stroke-dasharray", "6 5");
    if (chosen && link.from !== chosen && link.to !== chosen) line.setAttribute("class", "faded");
    const title = document.createElementNS(space, "title");
    title.textContent = `${link.from} to ${link.to}: ${counted(link.messages, "message")}, ${known(link, percent(loss(link)))} of attempts lost, median ${ms(link.delay_p50_us)}`;
    line.append(title);
    graph.append(line);
  }
  const names = [];
  for (const site of data.sites) {
    if (!site.linked) continue;
    const [x, y] = at[site.server];
    const dot = document.createElementNS(space, "circle"), name = document.createElementNS(space, "text");
    dot.setAttribute("cx", x); dot.setAttribute("cy", y); dot.setAttribute("r", px * (site.server === chosen ? 12 : 9));
    dot.setAttribute("fill", site.log === "whole" ? "#1f5fa8" : site.log === "absent" ? "#98a2b3" : "#b7791f");
    dot.setAttribute("data-server", site.server);
    const title = document.createElementNS(space, "title");
    title.textContent = `${site.server}: log ${site.log}`;
    dot.append(title);
    dot.addEventListener("click", () => { chosen = chosen === site.server ? null : site.server; map(); redrawLinks(); });
    name.setAttribute("x", x); name.setAttribute("y", y < 40 ? y + 24 * px : y - 14 * px);
    name.setAttribute("font-size", 13 * px);
    name.setAttribute("text-anchor", x < 150 ? "start" : x > 850 ? "end" : "middle");
    name.textContent = short.get(first(site.server)) === 1 ? first(site.server) : site.server;
    names.push(name);
    graph.append(dot);
  }
  graph.append(...names);
  $("chosen").textContent = chosen ? "Links of " + chosen + " only; choose it again for all." : "";
}

function routes() {
  for (const route of data.routes) {
    const box = make("details");
    box.id = routeId(route.smuid);
    box.append(named(make("summary"), `${route.smuid} · ${route.topic} · ${counted(route.reached, "server")} · ${ms(route.last_delay_us)} · ${route.state}`));
    // each line stands in a list of its own depth, below the last line that is less deep
    const list = make("ul"), lists = [list], last = [];
    for (const line of route.lines) {
      const item = make("li"), hop = line.hop;
      named(item, line.rejected || (line.unknown ? "how it came here is not known: " : "") + line.server
        + (hop ? ` after ${ms(hop.delay_us)} (raw ${ms(hop.delay_raw_us)})` : "")
        + (hop && hop.attempt > 1 ? ` at attempt ${hop.attempt}` : "") + (line.doubt ? ` (${line.doubt})` : "")
        + (line.rejected ? "" : " · " + (line.state || "its log is missing")));
      lists.length = line.depth + 1;
      lists[line.depth] ||= last[line.depth - 1].appendChild(make("ul"));
      lists[line.depth].append(item);
      last[line.depth] = item;
    }
    box.append(list);
    const more = (what) => { if (route.more[what]) box.append(make("p", `And ${count(route.more[what])} more; see: smqpd trace route ${route.smuid} --out DIR`, "hint")); };
    const say = (text) => box.append(named(make("p", null, "hint"), text));
    more("lines");
    for (const sentence of route.open) say(sentence);
    for (const one of route.proof) say(`${one.server} · ${one.state}: ${one.sentence}`);
    more("proof");
    for (const one of route.by_pattern) say(`Delivered at ${one.server} to ${one.subscription} by the pattern ${one.pattern}`);
    more("by_pattern");
    $("routes").append(box);
  }
  if (!data.routes.length) $("routes").append(make("p", "None.", "hint"));
}

// A click on an anomaly leads to the route of its message; not all of very many are on the page.
function leadToRoute(anomaly, line) {
  if (!anomaly.smuid) return;
  line.classList.add("leads");
  line.addEventListener("click", () => {
    const box = document.getElementById(routeId(anomaly.smuid));
    $("elsewhere").textContent = box ? "" : `This page has the gravest routes; see: smqpd trace route ${anomaly.smuid} --out DIR`;
    if (!box) return;
    box.open = true;
    box.scrollIntoView();
    box.querySelector("summary").focus({ preventScroll: true });
  });
}

const kinds = Object.entries(data.kinds).map(([kind, n]) => `${kind} ${count(n)}`);
$("kinds").textContent = kinds.length ? "There are: " + kinds.join(", ") + "." : "There are none.";
if (data.totals.anomalies > data.anomalies.length) $("kinds").append(" To see more: smqpd trace anomalies --limit N --out DIR");
figures();
map();
$("shade").addEventListener("change", map);
window.addEventListener("resize", map);
redrawLinks = table("links", [
  ["from", (r) => r.from], ["to", (r) => r.to], ["messages", (r) => r.messages, (r) => count(r.messages)],
  ["bytes", (r) => r.bytes, (r) => count(r.bytes)], ["attempts lost", loss, (r) => known(r, percent(loss(r)))],
  ["retries", (r) => r.retries, (r) => known(r, count(r.retries))], ["duplicates", (r) => r.duplicates, (r) => count(r.duplicates)],
  ["p50", (r) => r.delay_p50_us, (r) => ms(r.delay_p50_us)], ["p99", (r) => r.delay_p99_us, (r) => ms(r.delay_p99_us)],
  ["p50 as logged", (r) => r.raw_p50_us, (r) => ms(r.raw_p50_us)],
], data.links, { total: data.totals.links, order: "those with most messages", only: (r) => !chosen || r.from === chosen || r.to === chosen });
table("anomalies", [
  ["kind", (r) => r.kind], ["server", (r) => r.server], ["peer", (r) => r.peer], ["message", (r) => r.smuid],
  ["topic", (r) => r.topic], ["since", (r) => r.time_us, (r) => moment(r.time_us)], ["detail", (r) => r.detail],
], data.anomalies, { total: data.totals.anomalies, order: "the gravest", bad: (r) => r.kind === "lost", choose: leadToRoute });
routes();
table("balance", [
  ["server", (r) => r.server], ["topic", (r) => r.topic], ["day", (r) => r.day],
  ...["published", "received", "begin_missing", "finished", "held", "gone", "lost", "log_missing", "unknown"].map(
    (name) => [name.replace("_", " "), (r) => r[name], (r) => count(r[name])]),
  ["closes", (r) => r.closes ? "yes" : "no"],
], data.balance, { total: data.totals.balance, order: "what does not close, then others,", bad: (r) => !r.closes });
table("sites", [
  ["server", (r) => r.server], ["log", (r) => r.log], ["records", (r) => r.records, (r) => count(r.records)],
  ["missing", (r) => r.missing, (r) => count(r.missing)], ["clock ahead", (r) => r.offset_us, (r) => ms(r.offset_us)],
  ["drift ppm", (r) => r.drift_ppm, (r) => r.drift_ppm === null ? "unknown" : r.drift_ppm.toFixed(2)],
], data.sites, { total: data.totals.sites, order: "those with a log, then others,", bad: (r) => r.log !== "whole" });
document.documentElement.dataset.ready = "yes";
