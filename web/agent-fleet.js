/* SPDX-License-Identifier: MIT */
/* The fleet and jobs across nodes: a part of web/agent.html, put into it when it is served.
 *
 * One document holds what the agent knows of all nodes; later ones have only those that changed.
 * Everything is drawn from it: the sums, the alerts of all nodes by rule, a heat map with a row a
 * node and a cell a GPU on one canvas (4,096 cells are no work for it, as elements they would be),
 * and a table of which only so many rows are elements as are shown. */
"use strict";
const FLEET_METRICS = { util: ["gpu.util", "Utilisation", "%", 0, 100], tensor: ["gpu.prof.tensor", "Tensor activity", "ratio", 0, 1], temp: ["gpu.temp", "Temperature", "C", 30, 90],
  power: ["gpu.power", "Power", "W", 0, 700], memory: ["gpu.fb.used", "Memory", "B", 0, 0] };
const FLEET_STATES = { lost: ["lost", "bad"], critical: ["critical", "critical"], warning: ["warning", "warning"], asked: ["asking", "info"], ok: ["ok", "good"] };
const TROUBLE = Object.keys(FLEET_STATES), FLEET_GROUPS = ["none", "group", "rack", "switch", "state"], FLEET_SORTS = ["trouble", "name"], FLEET_ROWS = 60;
const fleet = { nodes: [], number: 0, head: null, fault: "", q: "", state: "", group: "none", sort: "trouble", metric: "util", all: false, sel: null, cells: [], took: 0, bytes: 0 };
const nodeName = n => n.host || (n.address || "").replace(/^https?:\/\//, "") || "this node";
const nodeHref = n => { const h = n.address && (n.address.includes("://") ? n.address : "http" + "://" + n.address); return h && /^https?:/.test(h) ? h : ""; };
const column = (n, m) => n.node && n.node.now && n.node.now[m] || [];
const meanOfList = a => { let s = 0, k = 0; for (const v of a) if (known(v)) { s += v; k++; } return k ? s / k : null; };
const sumOfList = a => { let s = 0, k = 0; for (const v of a) if (known(v)) { s += v; k++; } return k ? s : null; };
const mostOfList = a => { let m = null; for (const v of a) if (known(v) && (m == null || v > m)) m = v; return m; };
const middleOfList = a => { const v = a.filter(known).sort((x, y) => x - y), h = v.length >> 1; return v.length ? v.length % 2 ? v[h] : (v[h - 1] + v[h]) / 2 : null; };

/* ---- asking */
let fleetAsking = false;
async function loadFleet() {
  if (fleetAsking) return;
  fleetAsking = true;
  try {
    const d = await get("fleet" + (fleet.number && fleet.nodes.length ? "?since=" + fleet.number : ""));
    const before = performance.now();
    if (d.count !== fleet.nodes.length || d.number < fleet.number) { /* another list of agents: it was started again */
      if (fleet.number) { fleet.number = 0; fleet.nodes = []; fleetAsking = false; return loadFleet(); }
      fleet.nodes = new Array(d.count).fill(null);
    }
    for (const n of d.nodes) fleet.nodes[n.at] = { ...n, text: (nodeName(n) + " " + (n.address || "") + " " + [n.group, n.rack, n.switch, n.state, n.node && n.node.model, n.error].join(" ") + " " + (n.node ? n.node.alerts.map(a => a.name).join(" ") + " " + n.node.jobs.map(j => j.job).join(" ") : "")).toLowerCase() };
    fleet.number = d.number;
    fleet.head = d;
    fleet.fault = "";
    showFleet();
    if (view === "processes") showRanks();
    fleet.took = performance.now() - before;
  } catch (e) { fleet.fault = e.message; showFleet(); }
  fleetAsking = false;
}
let fleetAsked = 0;
setInterval(() => {
  const wants = view === "fleet" || view === "processes";
  if (!wants || document.hidden || fleetAsking) return;
  const soon = view === "fleet" && fleet.head && fleet.head.asked;
  if (Date.now() - fleetAsked >= (soon ? 900 : 4900)) { fleetAsked = Date.now(); loadFleet(); }
}, 250);

/* ---- the address */
function fleetKeep() {
  if (view !== "fleet") return;
  const q = new URLSearchParams();
  if (fleet.q) q.set("q", fleet.q);
  if (fleet.state) q.set("state", fleet.state);
  if (fleet.group !== "none") q.set("group", fleet.group);
  if (fleet.sort !== "trouble") q.set("sort", fleet.sort);
  if (fleet.metric !== "util") q.set("metric", fleet.metric);
  const t = "#fleet" + (String(q) ? "?" + q : "");
  if (location.hash !== t) history.replaceState(null, "", t);
}
function fleetRead() {
  const [name, rest] = location.hash.slice(1).split("?");
  if (name !== "fleet") return;
  const q = new URLSearchParams(rest || ""), pick = (k, list, other) => list.includes(q.get(k)) ? q.get(k) : other;
  fleet.q = (q.get("q") || "").slice(0, 200);
  fleet.state = pick("state", ["trouble", ...TROUBLE], "");
  fleet.group = pick("group", FLEET_GROUPS, "none");
  fleet.sort = pick("sort", FLEET_SORTS, "trouble");
  fleet.metric = pick("metric", Object.keys(FLEET_METRICS), "util");
}
function fleetSet(k, v) { fleet[k] = v; fleetKeep(); showFleet(); }

/* ---- which nodes, in which order */
const byName = (a, b) => nodeName(a).localeCompare(nodeName(b), "en", { numeric: true });
const troubleOf = n => TROUBLE.indexOf(n.state) * 1e6 - (n.node ? n.node.alerts.length : 0);
function fleetNodes() {
  const words = fleet.q.toLowerCase().split(/\s+/).filter(Boolean);
  return fleet.nodes.filter(n => n && words.every(w => n.text.includes(w)) && (!fleet.state || (fleet.state === "trouble" ? n.state !== "ok" && n.state !== "asked" : n.state === fleet.state)));
}
function fleetOrder(list) {
  const cmp = fleet.sort === "name" ? byName : (a, b) => a.rank - b.rank || a.place - b.place;
  if (!fleet.names || fleet.names.length !== fleet.nodes.length || fleet.nodes.some((n, i) => n && fleet.names[i] !== nodeName(n))) {
    fleet.names = fleet.nodes.map(n => n && nodeName(n));
    fleet.places = [];
    fleet.nodes.filter(Boolean).sort(byName).forEach((n, i) => { fleet.places[n.at] = i; });
  }
  for (const n of list) { n.rank = troubleOf(n); n.place = fleet.places[n.at]; }
  list.sort(fleet.sort === "name" ? (a, b) => a.place - b.place : cmp);
  if (fleet.group === "none") return [["", list]];
  const groups = new Map();
  for (const n of list) { const k = fleet.group === "state" ? n.state : n[fleet.group] || "unknown"; if (groups.has(k)) groups.get(k).push(n); else groups.set(k, [n]); }
  const worst = g => Math.min(...g[1].map(n => TROUBLE.indexOf(n.state)));
  return [...groups].sort((a, b) => (fleet.sort === "trouble" ? worst(a) - worst(b) : 0) || a[0].localeCompare(b[0], "en", { numeric: true }));
}

/* ---- the view; made once, then only what changed is written */
const fl = {};
function fleetMake() {
  const box = $("v-fleet");
  fl.q = el("input", { id: "fleet-q", type: "search", title: "name, rack, switch, alert, job …", ariaLabel: "Nodes whose name, place, alert or job has these words", autocomplete: "off", size: 24 });
  fl.q.oninput = () => fleetSet("q", fl.q.value);
  const seg = (id, label, names, set) => {
    const s = el("span", { className: "seg", id, role: "group", ariaLabel: label });
    for (const [k, name] of names) { const b = el("button", { type: "button" }, name); b.dataset.k = k; b.onclick = () => set(k); s.append(b); }
    return s;
  };
  fl.states = seg("fleet-states", "Which states", [["", "all"], ["trouble", "trouble"], ...TROUBLE.map(s => [s, FLEET_STATES[s][0]])], k => fleetSet("state", k));
  fl.groups = seg("fleet-groups", "Grouped by", FLEET_GROUPS.map(g => [g, g === "none" ? "no groups" : g]), k => fleetSet("group", k));
  fl.sorts = seg("fleet-sorts", "Sorted by", [["trouble", "worst first"], ["name", "by name"]], k => fleetSet("sort", k));
  fl.metrics = seg("fleet-metrics", "Shown in the map", Object.entries(FLEET_METRICS).map(([k, m]) => [k, m[1]]), k => fleetSet("metric", k));
  fl.sum = el("div", { className: "panel sums", id: "fleet-sum" });
  fl.alerts = el("div", { className: "panel", id: "fleet-alerts", ariaLabel: "Alerts of the fleet" });
  fl.map = el("canvas", { id: "fleet-map", tabIndex: 0, role: "img" });
  fl.legend = el("span", { className: "soft" });
  fl.nodes = el("div", { className: "panel scroll", id: "nodes" });
  fl.note = el("p", { className: "soft", id: "fleet-note" });
  box.replaceChildren(el("h2", {}, "Fleet"), fl.sum, fl.alerts, el("div", { className: "tools" }, el("label", { htmlFor: "fleet-q", className: "soft" }, "find"), fl.q, fl.states, fl.groups, fl.sorts),
    el("div", { className: "panel lane" }, el("div", { className: "row tools" }, fl.metrics, fl.legend), fl.map), fl.nodes, fl.note);
  fl.map.addEventListener("pointermove", e => fleetTip(fleetAt(e), e.clientX, e.clientY));
  fl.map.addEventListener("pointerleave", tipHide);
  fl.map.addEventListener("click", e => { const c = fleetAt(e); if (c) fleetOpen(c.n); });
  fl.map.addEventListener("blur", () => { fleet.sel = null; tipHide(); fleetDraw(); });
  fl.map.addEventListener("keydown", fleetMove);
}
const fleetOpen = n => { const h = nodeHref(n); if (h) location.href = h; else location.hash = "overview"; };
function showFleet() {
  if (view !== "fleet") return;
  if (!fl.map) fleetMake();
  if (fl.q.value !== fleet.q) fl.q.value = fleet.q;
  const counts = { "": 0, trouble: 0 };
  for (const n of fleet.nodes) if (n) { counts[""]++; counts[n.state] = (counts[n.state] || 0) + 1; if (n.state !== "ok" && n.state !== "asked") counts.trouble++; }
  for (const b of fl.states.children) {
    b.setAttribute("aria-pressed", String(b.dataset.k === fleet.state));
    put2(b, (b.dataset.k === "" ? "all" : b.dataset.k === "trouble" ? "trouble" : FLEET_STATES[b.dataset.k][0]) + " " + (counts[b.dataset.k] || 0));
    b.hidden = !counts[b.dataset.k] && b.dataset.k !== "" && b.dataset.k !== fleet.state;
  }
  for (const [s, k] of [[fl.groups, "group"], [fl.sorts, "sort"], [fl.metrics, "metric"]]) for (const b of s.children) b.setAttribute("aria-pressed", String(b.dataset.k === fleet[k]));
  for (const b of fl.groups.children) b.hidden = ["group", "rack", "switch"].includes(b.dataset.k) && !fleet.nodes.some(n => n && n[b.dataset.k]) && fleet.group !== b.dataset.k;
  const list = fleetNodes(), groups = fleetOrder(list);
  fleetSum(counts);
  fleetAlerts();
  fleetLay(groups);
  fleetDraw();
  fleetTable(groups, list.length);
  if (!fl.shownAt && fleet.nodes.length) fl.shownAt = performance.now();
  put2(fl.note, fleet.fault ? "The fleet is not known: " + fleet.fault : fleet.nodes.length < 2 ? "This agent knows no other one: --peer gpu[1-64]:8090, or agent.peers of the spec." :
    list.length + " of " + fleet.nodes.length + " nodes shown. Each is asked every " + (fleet.head ? fleet.head.every_ms / 1000 : 5) + " s" + (fleet.head && fleet.head.late ? "; " + fleet.head.late + " were asked late" : "") + ".");
}
const put2 = (e, t) => { if (e.textContent !== t) e.textContent = t; };
function fleetSum(counts) {
  const up = fleet.nodes.filter(n => n && n.node), gpus = up.reduce((a, n) => a + n.node.gpus.length, 0), all = m => up.flatMap(n => column(n, m)), hot = mostOfList(all("gpu.temp"));
  const lost = up.reduce((a, n) => a + column(n, "gpu.lost").filter(v => v === 1).length, 0), hottest = hot == null ? null : up.find(n => column(n, "gpu.temp").includes(hot));
  const power = sumOfList(all("gpu.power")), tensor = meanOfList(all("gpu.prof.tensor")), util = meanOfList(all("gpu.util"));
  const tiles = [["Nodes", fleet.nodes.length && up.length < fleet.nodes.length ? up.length + " of " + fleet.nodes.length : String(fleet.nodes.length), counts.asked ? counts.asked + " being asked" : counts.lost ? counts.lost + " do not answer" : "all answer", counts.lost ? "bad" : ""],
    ["GPUs", String(gpus), lost ? lost + " lost" : gpus ? "none lost" : "", lost ? "bad" : ""],
    ["Utilisation", known(util) ? text(util, "%") : "unknown", "mean", ""], ["Tensor activity", known(tensor) ? text(tensor, "ratio") : "unknown", "mean", ""],
    ["GPU power", known(power) ? power >= 1e4 ? digits(power / 1e3) + " kW" : text(power, "W") : "unknown", "", ""],
    ["Hottest", known(hot) ? text(hot, "C") : "unknown", hottest ? nodeName(hottest) + " GPU " + hottest.node.gpus[column(hottest, "gpu.temp").indexOf(hot)] : "", known(hot) && hot > 85 ? "warn" : ""]];
  if (fl.sum.children.length !== tiles.length) fl.sum.replaceChildren(...tiles.map(() => el("div", {}, el("span", {}), el("b", {}), el("small", {}))));
  tiles.forEach(([name, v, extra, tone], i) => { const d = fl.sum.children[i]; put2(d.children[0], name); put2(d.children[1], v); if (d.children[1].className !== tone) d.children[1].className = tone; put2(d.children[2], extra); });
}
function fleetAlerts() {
  const rules = new Map();
  for (const n of fleet.nodes) {
    if (!n) continue;
    if (n.state === "lost") { const k = "critical no answer"; if (!rules.has(k)) rules.set(k, { name: "no answer", severity: "critical", at: [] }); rules.get(k).at.push([n, null, n.error]); }
    for (const a of n.node ? n.node.alerts : []) { const k = a.severity + " " + a.name; if (!rules.has(k)) rules.set(k, { name: a.name, severity: a.severity, at: [] }); rules.get(k).at.push([n, a.gpu, a.summary]); }
  }
  const list = [...rules.values()].sort((a, b) => RANK[a.severity] - RANK[b.severity] || b.at.length - a.at.length || a.name.localeCompare(b.name)), t = JSON.stringify(list.map(r => [r.name, r.severity, r.at.length, r.at.slice(0, 8).map(x => [x[0].at, x[1]]), r.at[0][2]]));
  if (t === fl.alertText) return;
  fl.alertText = t;
  const rows = list.slice(0, 8).map(r => {
    const nodes = new Map();
    for (const [n, g] of r.at) { if (!nodes.has(n.at)) nodes.set(n.at, [n, []]); if (known(g)) nodes.get(n.at)[1].push(g); }
    const where = [...nodes.values()].slice(0, 6).map(([n, g]) => nodeName(n) + (g.length ? " GPU" + (g.length > 1 ? "s " : " ") + runs(g) : "")).join("; ") + (nodes.size > 6 ? " and " + (nodes.size - 6) + " more" : "");
    const link = el("a", { href: "#fleet?q=" + encodeURIComponent(r.name === "no answer" ? "lost" : r.name), className: "when", title: "only these nodes" }, nodes.size + (nodes.size === 1 ? " node" : " nodes"));
    return el("div", { className: "alert " + r.severity }, el("span", { className: "tag " + r.severity }, r.severity), el("div", {}, el("b", {}, r.name), where), link, el("span", { className: "soft" }, r.at[0][2] || ""));
  });
  if (list.length > 8) rows.push(el("div", { className: "note" }, "and " + (list.length - 8) + " more rules"));
  if (!rows.length) rows.push(plainRow("resolved", "ok", "No alert fires", "on any node that answers"));
  fl.alerts.replaceChildren(...rows);
}

/* ---- the heat map: a row a node, a cell a GPU */
function fleetLay(groups) {
  const total = groups.reduce((a, g) => a + g[1].length, 0), small = total > 96, w = fl.map.clientWidth || 800, cell = small ? 9 : 16, high = small ? 11 : 18;
  const most = Math.max(1, ...fleet.nodes.map(n => n && n.node ? n.node.gpus.length : 0)), names = groups.flatMap(g => g[1]), label = labelWidth(names, small ? 92 : 150, small ? 9.5 : 12), wide = label + Math.min(most, 32) * cell + 14, columns = Math.max(1, Math.min(Math.floor((w - 2) / wide), total));
  fleet.cells = [];
  let y = 2;
  for (const [name, list] of groups) {
    if (name) { fleet.cells.push({ title: name, count: list.length, y }); y += 18; }
    const rows = Math.ceil(list.length / columns);
    list.forEach((n, i) => fleet.cells.push({ n, x: 2 + Math.floor(i / rows) * wide, y: y + i % rows * high, label, cell, high }));
    y += rows * high + 4;
  }
  const h = Math.max(40, y + 2);
  if (fl.map.style.height !== h + "px") fl.map.style.height = h + "px";
}
/* of the longest name, as far as there is room: measured when there are other names */
function labelWidth(list, most, size) {
  const key = size + " " + list.length + " " + fleet.names;
  if (fl.labelKey !== key) {
    const c = fl.map.getContext("2d");
    c.font = size + "px system-ui, 'Liberation Sans', sans-serif";
    fl.labelKey = key;
    fl.label = Math.min(most, 10 + Math.ceil(Math.max(20, ...list.map(n => c.measureText(nodeName(n)).width))));
  }
  return fl.label;
}
function fleetDraw() {
  if (view !== "fleet" || !fl.map) return;
  const [c, w] = fit(fl.map), [metric, title, unit, low, top0] = FLEET_METRICS[fleet.metric];
  const top = top0 || Math.max(1, ...fleet.nodes.map(n => n && mostOfList(column(n, "gpu.fb.total")) || 0));
  const ink = colour("ink"), soft = colour("soft"), line = colour("line"), heat = colour("heat"), bad = colour("bad"), warn = colour("warn");
  c.textBaseline = "middle";
  for (const k of fleet.cells) {
    if (k.title) { c.font = "600 12px system-ui, 'Liberation Sans', sans-serif"; c.fillStyle = ink; c.fillText(k.title + " · " + k.count, k.x || 2, k.y + 8); continue; }
    const n = k.n, v = column(n, metric), gone = column(n, "gpu.lost"), size = k.cell - (k.cell > 10 ? 2 : 1), mid = k.y + k.high / 2;
    c.font = (k.high > 12 ? 12 : 9.5) + "px system-ui, 'Liberation Sans', sans-serif";
    c.fillStyle = n.state === "lost" || n.state === "critical" ? bad : n.state === "warning" ? warn : soft;
    c.fillText(cut(c, nodeName(n), k.label - 8), k.x, mid);
    if (!n.node) { c.strokeStyle = n.state === "lost" ? bad : line; c.setLineDash([2, 2]); c.strokeRect(k.x + k.label + .5, k.y + 1.5, 8 * k.cell - 2, k.high - 4); c.setLineDash([]); continue; }
    c.fillStyle = heat;
    for (let g = 0; g < n.node.gpus.length && g < 32; g++) {
      const x = k.x + k.label + g * k.cell;
      if (known(v[g])) { c.globalAlpha = .08 + .92 * Math.max(0, Math.min(1, (v[g] - low) / (top - low))); c.fillRect(x, k.y + 1, size, k.high - 2); }
      else { c.globalAlpha = 1; c.strokeStyle = gone[g] === 1 ? bad : line; c.strokeRect(x + .5, k.y + 1.5, size - 1, k.high - 3); }
    }
    c.globalAlpha = 1;
    for (const a of n.node.alerts) {
      const g = known(a.gpu) ? n.node.gpus.indexOf(a.gpu) : -1;
      if (g < 0 || g >= 32 || a.severity === "info") continue;
      c.strokeStyle = a.severity === "critical" ? bad : warn; c.lineWidth = 1.5; c.strokeRect(k.x + k.label + g * k.cell + .5, k.y + 1.5, size - 1, k.high - 3); c.lineWidth = 1;
    }
    if (fleet.sel && fleet.sel.at === n.at) { c.strokeStyle = colour("accent"); c.lineWidth = 2; c.strokeRect(k.x + k.label + fleet.sel.g * k.cell - 1, k.y, size + 2, k.high); c.lineWidth = 1; }
  }
  const t = fleet.cells.length + " " + title + text(low, unit) + text(top, unit) + document.documentElement.dataset.theme;
  if (fl.legendText !== t) { fl.legendText = t; fl.legend.replaceChildren(text(low, unit), el("span", { className: "ramp" }), text(top, unit)); }
  fl.map.setAttribute("aria-label", title + " of " + fleet.cells.filter(k => k.n).length + " nodes, a row a node and a cell a GPU. Arrow keys go from GPU to GPU, Enter opens the node's page.");
}
const cutTexts = new Map();
function cut(c, t, width) {
  const key = c.font + width + t;
  if (cutTexts.has(key)) return cutTexts.get(key);
  let out = t;
  while (out.length > 1 && c.measureText(out === t ? t : out + "…").width > width) out = out.slice(0, -1);
  out = out === t ? t : out + "…";
  if (cutTexts.size > 5000) cutTexts.clear();
  cutTexts.set(key, out);
  return out;
}
function fleetAt(e) {
  const r = fl.map.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
  const k = fleet.cells.find(k => k.n && y >= k.y && y < k.y + k.high && x >= k.x && x < k.x + k.label + Math.max(8, k.n.node ? k.n.node.gpus.length : 8) * k.cell);
  return k ? { n: k.n, g: k.n.node && x >= k.x + k.label ? Math.min(k.n.node.gpus.length - 1, Math.floor((x - k.x - k.label) / k.cell)) : -1 } : null;
}
function fleetTip(at, cx, cy) {
  if (!at) return tipHide();
  const { n, g } = at, gpu = g >= 0 && n.node ? n.node.gpus[g] : null, rows = [];
  if (gpu != null) for (const k in FLEET_METRICS) { const [m, title, unit] = FLEET_METRICS[k], v = column(n, m)[g]; rows.push(el("tr", {}, el("td", {}, title), el("td", { className: "n" }, el("b", {}, say(v, unit))))); }
  const alerts = n.node ? n.node.alerts.filter(a => gpu == null || a.gpu === gpu).slice(0, 4) : [];
  $("tip").replaceChildren(el("div", {}, el("b", {}, nodeName(n)), gpu == null ? "" : " GPU " + gpu, " ", el("span", { className: "tag " + FLEET_STATES[n.state][1] }, FLEET_STATES[n.state][0])),
    el("div", { className: "soft" }, [n.group, n.rack && "rack " + n.rack, n.switch && "switch " + n.switch].filter(Boolean).join(", ") || n.error || ""), el("table", {}, ...rows), ...alerts.map(a => el("div", { className: a.severity === "critical" ? "bad" : a.severity === "warning" ? "warn" : "" }, a.name + ": " + a.summary)));
  place(cx, cy);
}
function fleetMove(e) {
  const list = fleet.cells.filter(k => k.n), step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[e.key];
  if (!list.length || e.shiftKey || !step && e.key !== "Enter") return;
  let i = list.findIndex(k => fleet.sel && k.n.at === fleet.sel.at), g = fleet.sel ? fleet.sel.g : 0;
  if (e.key === "Enter") { if (i >= 0) fleetOpen(list[i].n); return; }
  if (i < 0) i = 0; else { g += step[0]; i = Math.max(0, Math.min(list.length - 1, i + step[1])); }
  g = Math.max(0, Math.min(list[i].n.node ? list[i].n.node.gpus.length - 1 : 0, g));
  fleet.sel = { at: list[i].n.at, g };
  fleetDraw();
  const r = fl.map.getBoundingClientRect(), k = list[i];
  fleetTip({ n: k.n, g: k.n.node ? g : -1 }, r.left + k.x + k.label + g * k.cell, r.top + k.y + k.high);
  e.preventDefault();
}

/* ---- the table: as many rows as are shown, written where they differ */
const FLEET_HEADS = ["state", "node", "place", "GPUs", "#utilisation", "#tensor", "#memory", "#power", "#hottest", "alerts"];
function rowMake() {
  const r = { tag: el("span", {}), link: el("a", { rel: "noreferrer" }), tds: FLEET_HEADS.map(h => el("td", { className: h.startsWith("#") ? "n" : h === "alerts" ? "wrap" : "" })) };
  r.tds[0].append(r.tag); r.tds[1].append(r.link);
  r.tr = el("tr", {}, ...r.tds);
  return r;
}
function rowPut(r, n) {
  const s = FLEET_STATES[n.state], m = (k, f, u) => { const v = f(column(n, k)); return known(v) ? text(v, u) : n.node && n.node.gpus.length ? "unknown" : ""; }, href = nodeHref(n);
  if (r.tag.className !== "tag " + s[1]) r.tag.className = "tag " + s[1];
  put2(r.tag, s[0]); put2(r.link, nodeName(n));
  if (href ? r.link.getAttribute("href") !== href : r.link.getAttribute("href") !== "#overview") r.link.setAttribute("href", href || "#overview");
  const cells = [[n.group, n.rack, n.switch].filter(Boolean).join(" · "), n.node ? n.node.gpus.length ? n.node.gpus.length + " × " + (n.node.model || "GPU").replace(/^NVIDIA /, "") : "none" : "", m("gpu.util", meanOfList, "%"), m("gpu.prof.tensor", meanOfList, "ratio"), m("gpu.fb.used", sumOfList, "B"), m("gpu.power", sumOfList, "W"), m("gpu.temp", mostOfList, "C"),
    n.state === "lost" ? (n.error || "no answer") + (n.seen_ms ? ", last seen " + ago(n.seen_ms) : ", never seen") : n.node ? groupsOf(n.node.alerts) : ""];
  cells.forEach((t, i) => { const td = r.tds[i + 2]; put2(td, t); if (i > 1 && i < 7) td.classList.toggle("unknown", t === "unknown"); });
}
const groupsOf = alerts => { const m = new Map(); for (const a of alerts) m.set(a.name, (m.get(a.name) || []).concat(known(a.gpu) ? [a.gpu] : [])); return [...m].slice(0, 4).map(([k, g]) => k + (g.length ? " (GPU " + runs(g) + ")" : "")).join(", ") + (m.size > 4 ? " and " + (m.size - 4) + " more" : ""); };
function fleetTable(groups, count) {
  if (!fl.rows) {
    fl.rows = []; fl.heads = []; fl.body = el("tbody", {});
    fl.more = el("button", { type: "button", className: "plain", id: "fleet-more" });
    fl.more.onclick = () => { fleet.all = !fleet.all; showFleet(); };
    fl.nodes.replaceChildren(el("table", { className: "list" }, el("thead", {}, el("tr", {}, ...FLEET_HEADS.map(h => el("th", { scope: "col", className: h.startsWith("#") ? "n" : "" }, h.replace("#", ""))))), fl.body), el("div", { className: "note" }, fl.more));
  }
  const want = [], room = fleet.all ? Infinity : FLEET_ROWS;
  let k = 0, h = 0;
  for (const [name, list] of groups) {
    if (k >= room) break;
    if (name) {
      if (!fl.heads[h]) fl.heads[h] = el("tr", { className: "group" }, el("th", { colSpan: FLEET_HEADS.length, scope: "colgroup" }));
      put2(fl.heads[h].firstChild, name + " · " + list.length + (list.length === 1 ? " node" : " nodes"));
      want.push(fl.heads[h++]);
    }
    for (const n of list) { if (k >= room) break; if (!fl.rows[k]) fl.rows[k] = rowMake(); rowPut(fl.rows[k], n); want.push(fl.rows[k++].tr); }
  }
  if (want.length !== fl.body.children.length || want.some((r, i) => fl.body.children[i] !== r)) fl.body.replaceChildren(...want);
  fl.more.parentElement.hidden = count <= FLEET_ROWS;
  put2(fl.more, fleet.all ? "only the first " + FLEET_ROWS : "all " + count + " nodes");
}
function fleetKey(k) {
  const next = (list, v) => list[(list.indexOf(v) + 1) % list.length];
  if (k === "/") { if (fl.q) fl.q.focus(); }
  else if (k === "g") { const may = FLEET_GROUPS.filter(g => g === "none" || g === "state" || fleet.nodes.some(n => n && n[g])); fleetSet("group", next(may, fleet.group)); }
  else if (k === "m") fleetSet("metric", next(Object.keys(FLEET_METRICS), fleet.metric));
  else if (k === "s") fleetSet("sort", next(FLEET_SORTS, fleet.sort));
  else if (k === "Escape") { fleet.q = fleet.state = ""; fleetKeep(); showFleet(); }
  else return false;
  return true;
}

/* ---- a job across nodes: its ranks, the slowest of them, what that costs and why it may be */
function jobsAcross() {
  const jobs = new Map();
  for (const n of fleet.nodes) for (const j of n && n.node ? n.node.jobs : []) {
    if (!known(j.rank)) continue;
    const busy = known(j.busy_seconds) ? j.busy_seconds : j.step_seconds;
    if (!jobs.has(j.job)) jobs.set(j.job, { name: j.job, ranks: [], world: null, lost: [] });
    const job = jobs.get(j.job);
    job.world = known(j.world_size) ? j.world_size : job.world;
    job.ranks.push({ ...j, busy, own: known(j.busy_seconds), node: n, at: known(j.gpu) ? n.node.gpus.indexOf(j.gpu) : -1 });
  }
  for (const job of jobs.values()) {
    job.ranks.sort((a, b) => a.rank - b.rank);
    const told = job.ranks.filter(r => known(r.busy));
    job.middle = middleOfList(told.map(r => r.busy));
    job.step = middleOfList(job.ranks.map(r => r.step_seconds));
    job.slow = told.length > 2 ? told.reduce((a, b) => b.busy > a.busy ? b : a) : null;
    job.nodes = new Set(job.ranks.map(r => r.node.at)).size;
    if (job.slow && !(job.slow.busy > job.middle * 1.05)) job.slow = null; /* within the spread of equal GPUs */
  }
  return [...jobs.values()].filter(j => j.ranks.length > 1);
}
/* what of this rank's GPU is not as the others' */
function slowReasons(job, r) {
  const v = (x, m) => x.at < 0 ? null : column(x.node, m)[x.at], mid = m => middleOfList(job.ranks.map(x => v(x, m))), out = [];
  if (r.at < 0) return out;
  const alerts = r.node.node.alerts.filter(a => a.gpu === r.gpu);
  if (v(r, "gpu.lost") === 1) out.push("the GPU is lost");
  for (const a of alerts) if (/Xid/.test(a.name)) out.push(a.summary.split(":")[0]);
  const clock = v(r, "gpu.clock.sm"), others = mid("gpu.clock.sm"), mask = v(r, "gpu.clock_events");
  const held = known(mask) ? REASONS.filter(x => x[0] > 1 && Math.floor(mask / x[0]) % 2).map(x => x[1]).join(", ") : "";
  if (known(clock) && known(others) && clock < others * .95) out.push("clocks at " + Math.round(clock) + " MHz where others run at " + Math.round(others) + (held ? " (" + held + ")" : ""));
  const margin = v(r, "gpu.temp.margin"), temp = v(r, "gpu.temp");
  if (known(margin) ? margin < 5 : known(temp) && temp > 85) out.push("hot: " + text(temp, "C"));
  const width = v(r, "gpu.pcie.width"), full = v(r, "gpu.pcie.width.max");
  if (known(width) && known(full) && width < full) out.push("PCIe ×" + width + " of ×" + full);
  const procs = v(r, "gpu.processes"), usual = mid("gpu.processes");
  if (known(procs) && known(usual) && procs > usual) out.push(procs + " processes on the GPU where others have " + usual);
  const tensor = v(r, "gpu.util");
  if (!out.length && known(tensor) && tensor < 50) out.push("the GPU is idle half of the time: it waits for its host or for data");
  return out;
}
function rankBars(job) {
  const canvas = el("canvas", { className: "ranks", role: "img", ariaLabel: job.ranks.length + " ranks of " + job.name + (job.slow ? ", the slowest is rank " + job.slow.rank : "") });
  canvas.draw = () => {
    const [c, w, h] = fit(canvas), n = job.ranks.length, top = Math.max(1e-9, ...job.ranks.map(r => Math.max(r.busy || 0, r.step_seconds || 0))), bw = w / n;
    job.ranks.forEach((r, i) => {
      const x = i * bw, pad = bw > 6 ? 2 : bw > 3 ? 1 : 0, y = v => h - v / top * (h - 2);
      if (known(r.step_seconds)) { c.fillStyle = colour("track"); c.fillRect(x, y(r.step_seconds), Math.max(.7, bw - pad), h - y(r.step_seconds)); }
      if (!known(r.busy)) return;
      c.fillStyle = colour(job.slow === r ? "bad" : job.middle && r.busy > job.middle * 1.05 ? "warn" : "util");
      c.fillRect(x, y(r.busy), Math.max(.7, bw - pad), h - y(r.busy));
    });
  };
  canvas.onpointermove = e => {
    const b = canvas.getBoundingClientRect(), r = job.ranks[Math.floor((e.clientX - b.left) / b.width * job.ranks.length)];
    if (!r) return tipHide();
    $("tip").replaceChildren(el("div", {}, el("b", {}, "rank " + r.rank), " on " + nodeName(r.node) + (known(r.gpu) ? " GPU " + r.gpu : "")), el("div", {}, "works ", say(r.busy, "s"), " of a step of ", say(r.step_seconds, "s")));
    place(e.clientX, e.clientY);
  };
  canvas.onpointerleave = tipHide;
  return canvas;
}
function rankPanel(job) {
  const where = r => "rank " + r.rank + " on " + nodeName(r.node) + (known(r.gpu) ? " GPU " + r.gpu : ""), head = job.ranks.length + (job.world && job.world > job.ranks.length ? " of " + job.world : "") + " ranks on " + job.nodes + (job.nodes === 1 ? " node" : " nodes");
  const box = el("div", { className: "panel job" }, el("div", { className: "row" }, el("b", {}, job.name), el("span", { className: "soft" }, head + (known(job.step) ? ", a step takes " + text(job.step, "s") : ""))));
  if (job.slow) {
    const r = job.slow, lost = r.busy - job.middle, share = known(job.step) && job.step > 0 ? Math.min(1, lost / job.step) : null, why = slowReasons(job, r);
    box.append(el("p", {}, el("span", { className: "tag bad" }, "slowest"), " ", el("b", {}, where(r)), " works " + text(r.busy, "s") + " on a step, the middle one " + text(job.middle, "s") + ". The other " + (job.ranks.length - 1) + " wait " + text(lost, "s") + " for it in every step" +
      (known(share) ? ": " + text(share, "ratio") + " of the job, as if " + digits(share * job.ranks.length) + " of its " + job.ranks.length + " GPUs did nothing." : ".")),
      el("p", {}, el("span", { className: "soft" }, "Likely because of: "), why.length ? why.join("; ") : "nothing that is known of it: clocks, heat, PCIe, XIDs and processes are as the others'"));
  } else box.append(el("p", { className: "soft" }, known(job.middle) ? job.ranks.some(r => r.own) || job.nodes > 0 && Math.abs(mostOfList(job.ranks.map(r => r.busy)) - job.middle) > 1e-9 ? "No rank is more than 5 % slower than the middle one, which works " + text(job.middle, "s") + " on a step." : "All ranks tell the same time a step; busy_seconds would tell which one the others wait for (docs/user/jobs.md)." : "No rank tells how long it works on a step (docs/user/jobs.md: busy_seconds)."));
  const bars = rankBars(job);
  box.append(bars, el("div", { className: "row soft" }, el("span", {}, "rank " + job.ranks[0].rank), el("span", {}, "own work, and waiting for others"), el("span", {}, "rank " + job.ranks[job.ranks.length - 1].rank)));
  const worst = job.ranks.filter(r => known(r.busy)).sort((a, b) => b.busy - a.busy).slice(0, 5);
  if (job.slow) box.append(el("div", { className: "scroll" }, table(["rank", "node", "#GPU", "#own work", "#longer than the middle", "why it may be"], worst.map(r => el("tr", {}, el("td", {}, String(r.rank)), el("td", {}, nodeName(r.node)), el("td", { className: "n" }, known(r.gpu) ? String(r.gpu) : unknown()), el("td", { className: "n" }, say(r.busy, "s")), el("td", { className: "n" }, text(r.busy / job.middle - 1, "ratio")), el("td", { className: "wrap" }, slowReasons(job, r).join("; ")))), "")));
  box.bars = bars;
  return box;
}
function showRanks() {
  if (view !== "processes" || !$("ranks")) return;
  const jobs = jobsAcross();
  const panels = jobs.map(rankPanel);
  $("ranks").replaceChildren(...(jobs.length ? [el("h2", {}, "Ranks of jobs, over all nodes"), ...panels] : []));
  for (const p of panels) p.bars.draw();
}

/* ---- what the demo tells now */
function showStory() {
  const s = state.node && state.node.story, box = $("story");
  box.hidden = !s;
  $("demo-back").hidden = !/\/demo\/$/.test(location.pathname);
  if (!s) return;
  const at = (((state.t || state.node.time_ms) - s.begun_ms) / 1000 % s.seconds + s.seconds) % s.seconds, list = s.chapters;
  let i = 0;
  while (i + 1 < list.length && list[i + 1].at <= at) i++;
  put2($("story-title"), i + 1 + "/" + list.length + " " + list[i].title);
  put2($("story-text"), list[i].text);
  $("story-bar").style.width = at / s.seconds * 100 + "%";
  box.title = "A second stands for a minute here: rules wait " + s.hurry + " times shorter than on a machine.";
}
