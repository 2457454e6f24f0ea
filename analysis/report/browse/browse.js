"use strict";
// Filters, charts and trials. What is shown is kept in the address behind #, so that it can be sent.
// Texts of rows are set as text, never as HTML; report.js sorts the table.

const DATA = JSON.parse(document.getElementById("data").textContent);
const CELLS = DATA.blocks.flatMap((block) =>
  block.views.flatMap((view) =>
    view.cells.map((cell) => ({ ...cell, ...view, sweep: block.sweep, cells: undefined }))));
CELLS.forEach((cell, i) => {
  cell.row = document.getElementById(`c${i}`);
  cell.key = `${cell.sweep}/${cell.scale}/${cell.cell}`;
});
const COUNTED = ["ok", "diverged"];
const DASHES = [[], [8, 4], [2, 3], [9, 3, 2, 3], [4, 2], [1, 2]];
const LOG_SPAN = 8; // largest over smallest length from which on the axis is logarithmic
const FONT = "12px system-ui, sans-serif";
const CSS = getComputedStyle(document.documentElement);
const color = (name) => CSS.getPropertyValue(`--${name}`).trim();
const form = document.getElementById("filters");
const table = document.querySelector("#table table");
const browse = document.querySelector(".browse");
const aside = browse.querySelector("aside");
const NAMES = ["sweep", "scale", "task", "encoding", "layers"];
const KEPT = [...NAMES, "axis", "words"]; // fields of the form in the address

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// 0.9876 as the tables print it: only all is 100.0, only nothing is 0.0
function percent(value) {
  if (value === null || value === undefined) return "–";
  return (value > 0 && value < 100 ? Math.min(Math.max(value, 0.1), 99.9) : value).toFixed(1);
}

function isLog(lengths) {
  return lengths.length > 1 && lengths[0] > 0 && lengths.at(-1) > LOG_SPAN * lengths[0];
}

function logTicks(u, axis, low, high) {
  const found = [], roomy = u.width / Math.log10(high / low) > 130;
  for (let power = 1; power <= high; power *= 10)
    for (const factor of roomy ? [1, 2, 5] : [1])
      if (factor * power >= low && factor * power <= high) found.push(factor * power);
  return found;
}

// Cells whose colours are near one another differ in their dashes.
function dashes(cells) {
  const channel = (color, i) => parseInt(color.slice(i, i + 2), 16);
  const near = (a, b) => [1, 3, 5].every((i) => Math.abs(channel(a, i) - channel(b, i)) < 96);
  return cells.map(({ color }, i) =>
    DASHES[cells.slice(0, i).filter((other) => near(color, other.color)).length % DASHES.length]);
}

function commonRange(cells) {
  const ranges = new Set(cells.map((cell) => JSON.stringify(cell.trained)));
  return ranges.size === 1 ? cells[0].trained : null;
}

// The nearest that a border can be, for the legend.
const borderOf = (dash) => (!dash?.length ? "solid" : dash[0] > 2 ? "dashed" : "dotted");

// How the median of a cell is drawn. lead: the cell in whose colour no other is drawn, if there is one.
function medianStyles(cells, lead) {
  if (!lead) {
    const dashed = dashes(cells);
    return cells.map(({ color }, i) => ({ stroke: color, width: 2.5, dash: dashed[i] }));
  }
  const colors = cells.map((cell) => (cell === lead ? lead.method_color
    : cell.method_color === lead.method_color ? color("grey") : cell.color));
  const dashed = dashes(colors.map((color) => ({ color })));
  return cells.map((cell, i) => ({ stroke: colors[i], width: cell === lead ? 4 : 1.25,
    dash: cell === lead ? [] : dashed[i] }));
}

function lines(cells, lengths, lead) {
  const at = (own, values) => {
    const known = new Map(own.map((length, i) => [length, values[i]]));
    return lengths.map((length) => known.get(length) ?? null);
  };
  const styles = medianStyles(cells, lead);
  const runs = [], medians = [];
  cells.forEach((cell, i) => {
    const withRuns = cell.trials.length > 1 && (!lead || cell === lead);
    for (const trial of withRuns ? cell.trials : [])
      if (COUNTED.includes(trial.status))
        runs.push([
          { stroke: styles[i].stroke, width: 0.8, alpha: lead ? 0.9 : 0.55, points: { show: false }, spanGaps: true,
            class: "run", dash: trial.status === "diverged" ? [3, 3] : undefined },
          at(cell.lengths, trial.curve)]);
    medians.push([
      { label: several(cells, "sweep") ? `${cell.cell} · ${cell.sweep}` : cell.cell,
        ...styles[i], spanGaps: true,
        points: { show: !lead || cell === lead, size: 5, fill: styles[i].stroke },
        value: (u, value) => (value === null || value === undefined ? "–" : `${percent(value)} %`) },
      at(cell.lengths, cell.median)]);
  });
  return [...runs, ...medians];
}

const several = (cells, name) => new Set(cells.map((cell) => cell[name])).size > 1;

// The chart of these cells in a box, in place of the one that was there. lead: one to be seen first.
function draw(box, cells, height, lead) {
  box.chart?.destroy();
  box.chart = null;
  const shown = cells.filter((cell) => cell.lengths.length);
  box.nextElementSibling.textContent = caption(cells, lead);
  box.hidden = !shown.length;
  if (!shown.length) return;
  const range = commonRange(shown);
  const lengths = [...new Set([...shown.flatMap((cell) => cell.lengths), ...(range ?? [])])];
  lengths.sort((a, b) => a - b);
  const axisOf = box.id === "chart" ? form.axis.value : "";
  const log = axisOf ? axisOf !== "linear" : isLog(lengths);
  const x = { time: false, distr: log ? 3 : 1 };
  const margin = log ? (v, up) => v * (up ? 1.06 : 0.94) : (v, up) => v + (up ? 0.4 : -0.4);
  x.range = (u, low, high) => [margin(low, false), margin(high, true)];
  const inside = lengths.map((v) => (range && v >= range[0] && v <= range[1] ? 106 : null));
  const ground = [
    [{ label: "trained lengths", fill: color("faint"), width: 0, points: { show: false },
       class: range ? "ground" : "run", fillTo: -3 }, inside],
    [{ label: "95 %", stroke: color("light"), width: 1, dash: [2, 3], points: { show: false },
       class: "run" }, lengths.map(() => 95)]];
  const all = [...ground, ...lines(shown, lengths, lead)];
  const axis = { stroke: color("grey"), font: FONT, labelFont: FONT, ticks: { stroke: color("light") },
    grid: { stroke: color("fainter") } };
  box.chart = new uPlot({
    width: box.clientWidth, height, padding: [8, 24, 0, 0],
    scales: { x, y: { range: [-3, 106] } },
    axes: [
      { ...axis, label: log ? "length (logarithmic)" : "length", labelSize: 22, size: 30,
        values: (u, splits) => splits.map((v) => (v === null || v % 1 ? "" : v.toLocaleString("en"))),
        ...(log ? { splits: logTicks, filter: (u, splits) => splits } : {}) },
      { ...axis, label: "exact match (%)", labelSize: 22, size: 40,
        splits: () => [0, 20, 40, 60, 80, 100] }],
    series: [{ label: "length", value: (u, v) => (v ?? "–").toLocaleString("en") },
             ...all.map(([style]) => style)],
    legend: { markers: { dash: (u, i) => borderOf(u.series[i].dash) } },
    cursor: { drag: { setScale: false, x: false }, dataIdx: (u, i, idx) => idx, y: false },
  }, [lengths, ...all.map(([, values]) => values)], box);
}

// What the chart shows: n, failed runs and whose weights.
function caption(cells, lead) {
  if (!cells.length) return "";
  const numbers = (of) => {
    const found = [...new Set(cells.map(of))].sort((a, b) => a - b);
    return found.length === 1 ? `${found[0]}` : `${found[0]}–${found.at(-1)}`;
  };
  const states = {};
  for (const cell of cells)
    for (const { status } of cell.trials)
      if (status !== "ok") states[status] = (states[status] ?? 0) + 1;
  const failed = Object.entries(states).map(([name, count]) =>
    `${count} ${name}${name === "diverged" ? " (dashed, counts as 0 %)" : " (not counted)"}`);
  const range = commonRange(cells);
  return [
    `${lead ? `Thick: ${lead.cell}, median over runs` : "Thick: median over runs"}, `
      + `n = ${numbers((c) => c.n)} of ${numbers((c) => c.trials.length)} planned per cell; `
      + `thin: ${lead ? "its runs, and medians of other cells of the sweep" : "runs"}. ${failed.length ? `${failed.join(", ")}.` : "No run failed."}`,
    range ? `Grey: the trained lengths ${range[0]}–${range[1]}.`
      : `Trained lengths: ${cells.map((c) => (c.trained ?? ["?"]).join("–")).join("; ")}.`,
    `Dotted: 95 %. Checkpoint: ${[...new Set(cells.map((c) => c.checkpoint))].join("; ")}.`,
  ].join(" ");
}

function showTrials(cells) {
  const box = document.getElementById("trials");
  box.replaceChildren(...cells.map((cell, i) => trialsOf(cell, i === cells.length - 1)));
}

function trialsOf(cell, open) {
  const made = make("details");
  made.open = open;
  const head = make("summary");
  const swatch = make("span", "", { class: "swatch" });
  swatch.style.background = cell.color;
  head.append(swatch, make("b", cell.cell), ` ${cell.sweep} · ${cell.scale} · `,
    `${cell.n} of ${cell.trials.length} runs counted`);
  const heads = ["trial", "why", "seed, data", "status", "L95", "commit", "seconds"];
  const body = make("tbody");
  for (const trial of cell.trials) body.append(trialRow(trial));
  const top = make("thead");
  top.append(make("tr"));
  top.rows[0].append(...heads.map((name) => make("th", name, { scope: "col" })));
  const list = make("table", undefined, { class: "small" });
  list.append(top, body);
  const scroll = make("div", undefined,
    { class: "scroll", role: "region", "aria-label": `trials of ${cell.cell}`, tabindex: "0" });
  scroll.append(list);
  made.append(head, scroll, links(cell));
  return made;
}

function trialRow(trial) {
  const row = make("tr");
  const command = `python -m sweeps why ${trial.id} --results ${DATA.results}`;
  const button = make("button", "copy", { type: "button", class: "copy", title: command });
  button.addEventListener("click", () => copy(command, button));
  const status = make("td", trial.status, trial.status === "ok" ? {} : { class: "failed" });
  if (trial.error) status.append(make("small", trial.error.trim().split("\n").at(-1)));
  const seeds = make("td", `${trial.seed}, ${trial.data_seed}`, { class: "number" });
  const commit = make("td", (trial.commit || "–") + (trial.dirty ? " and changes" : ""));
  const last = make("td");
  last.append(button);
  const id = make("th", undefined, { scope: "row" });
  id.append(make("code", trial.id));
  row.append(id, last, seeds, status, make("td", trial.L95, { class: "number" }), commit,
    make("td", trial.seconds === null ? "–" : trial.seconds.toFixed(0), { class: "number" }));
  return row;
}

function links(cell) {
  const line = make("p", `${cell.sweep}, ${cell.scale}: ${cell.complete}. `, { class: "hint" });
  line.append("Again: ", make("code", cell.command));
  const name = `${cell.sweep}-${cell.scale}`.replace(/[^A-Za-z0-9_-]/g, "-");
  if (DATA.sections.includes(name))
    line.append(". ", make("a", "In the report", { href: `${DATA.report}#${name}` }));
  return line;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch { // without a secure context
    button.replaceWith(make("code", text));
  }
}

const state = { cells: [], sort: "" };
let clicked = null; // the last row that was

function readState() {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const name of KEPT) {
    form[name].value = asked.get(name) ?? "";
    if (form[name].selectedIndex === -1) form[name].value = ""; // nothing has this value here
  }
  const keys = asked.getAll("cell");
  state.cells = keys.map((key) => CELLS.find((cell) => cell.key === key)).filter(Boolean);
  const sort = asked.get("sort") ?? "", heads = [...table.tHead.rows[0].cells];
  const index = heads.findIndex((head) => headName(head) === sort.split(":")[0]);
  for (let i = 0; index >= 0 && i < 2 && sortOf()?.join(":") !== sort; i++) sortTable(table, index);
}

const headName = (head) => head.querySelector("button")?.firstChild.textContent ?? "";

function sortOf() {
  const head = table.tHead.querySelector("[aria-sort]");
  return head ? [headName(head), head.getAttribute("aria-sort")] : null;
}

function writeState() {
  const said = new URLSearchParams();
  for (const name of KEPT) if (form[name].value) said.set(name, form[name].value);
  const sort = sortOf();
  if (sort) said.set("sort", sort.join(":"));
  for (const cell of state.cells) said.append("cell", cell.key);
  history.replaceState(null, "", `#${said}`);
}

function filter() {
  const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const cell of CELLS) {
    const text = `${cell.cell} ${cell.sweep} ${cell.title}`.toLowerCase();
    const fits = NAMES.every((name) => !form[name].value || `${cell[name]}` === form[name].value);
    cell.row.hidden = !(fits && words.every((word) => text.includes(word)));
    count += !cell.row.hidden;
  }
  document.getElementById("count").textContent = `${count} of ${CELLS.length} cells`;
  showLengths();
}

// The length of most rows shown stands in the head of its column, others in their rows.
function showLengths() {
  const rows = CELLS.filter((cell) => !cell.row.hidden).map((cell) => cell.row);
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const found = rows.map((row) => row.cells[column].querySelector(".at")).filter(Boolean);
    if (!found.length) return;
    const counts = new Map();
    for (const { textContent } of found) counts.set(textContent, (counts.get(textContent) ?? 0) + 1);
    const [most, count] = [...counts].sort((a, b) => b[1] - a[1])[0];
    const inHead = 2 * count > found.length;
    const small = head.querySelector("small");
    small.textContent = inHead ? most.trim() + (counts.size > 1 ? " if not said" : "") : "at length";
    for (const at of found) at.hidden = inHead && at.textContent === most;
  });
}

function show() {
  for (const cell of CELLS) {
    const button = cell.row.querySelector(".pick"), chosen = state.cells.includes(cell);
    button.setAttribute("aria-pressed", chosen);
    cell.row.classList.toggle("chosen", chosen);
    button.style.setProperty("--own", cell.color);
  }
  aside.hidden = !state.cells.length;
  browse.classList.toggle("open", !aside.hidden);
  const height = Math.max(180, Math.min(300, innerHeight / 2 - 150)); // of half a window with caption
  draw(document.getElementById("chart"), state.cells, height);
  showTrials(state.cells);
}

function toggle(cell) {
  const chosen = state.cells.includes(cell), wasHidden = aside.hidden;
  state.cells = chosen ? state.cells.filter((c) => c !== cell) : [...state.cells, cell];
  show();
  writeState();
  clicked = cell.row;
  keepInSight();
  if (wasHidden) browse.scrollIntoView(); // the table and what is below it fill the window
}

// The table becomes lower when something is shown below it: the clicked row stays in its box.
function keepInSight() {
  if (!clicked || clicked.hidden) return;
  const box = table.parentElement, row = clicked;
  const highest = row.offsetTop - table.tHead.offsetHeight;
  const lowest = row.offsetTop + row.offsetHeight - box.clientHeight;
  box.scrollTop = Math.min(Math.max(box.scrollTop, lowest), highest);
}

function unsort() {
  table.tHead.querySelector("[aria-sort]")?.removeAttribute("aria-sort");
  table.tBodies[0].append(...CELLS.map((cell) => cell.row));
}

function start() {
  const headline = document.getElementById("headline");
  if (headline) {
    const shown = headline.dataset.cells.split(" ").map((i) => CELLS[i]);
    const lead = CELLS[headline.dataset.lead];
    draw(headline, [...shown.filter((cell) => cell !== lead), lead], 340, lead); // over the others
  }
  readState();
  filter();
  show();
  CELLS.forEach((cell) => cell.row.addEventListener("click", () => toggle(cell)));
  form.addEventListener("input", (event) => {
    filter();
    if (event.target === form.axis) show();
    writeState();
  });
  form.addEventListener("reset", () => setTimeout(() => { unsort(); filter(); show(); writeState(); }));
  document.getElementById("clear").addEventListener("click", () => {
    state.cells = [];
    show();
    writeState();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  table.tHead.addEventListener("click", writeState);
  addEventListener("hashchange", () => { readState(); filter(); show(); });
  for (const link of document.querySelectorAll("a[data-sweep]"))
    link.addEventListener("click", (event) => {
      event.preventDefault();
      form.reset();
      form.sweep.value = link.dataset.sweep;
      if (form.sweep.selectedIndex === -1) form.sweep.value = ""; // no rows of it here
      filter();
      writeState();
      document.getElementById("cells").scrollIntoView();
    });
  new ResizeObserver(() => {
    for (const box of document.querySelectorAll(".chart"))
      box.chart?.setSize({ width: box.clientWidth, height: box.chart.height });
  }).observe(document.body);
  new ResizeObserver(keepInSight).observe(table.parentElement);
}

start();
