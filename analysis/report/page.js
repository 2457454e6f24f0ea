"use strict";
// Sorting, filters and trials. What is shown is kept in the address behind #, so that it can be sent.
// Texts of rows are set as text, never as HTML; chart.js draws.

const DATA = JSON.parse(document.getElementById("data").textContent);
const CELLS = DATA.cells;
CELLS.forEach((cell, i) => {
  cell.row = document.getElementById(`c${i}`);
  cell.key = `${cell.sweep}/${cell.scale}/${cell.cell}`;
});
const form = document.getElementById("filters");
const table = document.querySelector("#table table");
const browse = document.querySelector(".browse");
const aside = browse.querySelector("aside");
const NAMES = ["sweep", "scale", "task", "encoding", "layers"];
const KEPT = [...NAMES, "axis", "words"]; // fields of the form in the address
const state = { cells: [] };
let clicked = null; // the last row that was

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// 20 of "≥20 (2.5x)", undefined where nothing was measured.
function keyOf(cell) {
  const text = (cell.querySelector("button") ?? cell).firstChild?.textContent ?? "";
  if (!cell.classList.contains("number")) return text;
  const found = /[-−]?[\d.]+/.exec(text.replaceAll(",", ""));
  return found ? Number(found[0].replace("−", "-")) : undefined;
}

function sortTable(made, column) {
  const heads = [...made.tHead.rows[0].cells];
  const down = heads[column].getAttribute("aria-sort") === "ascending";
  const keyed = [...made.tBodies[0].rows].map((row) => [keyOf(row.cells[column]), row]);
  const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  keyed.sort(([a], [b]) => (a === undefined || b === undefined // these stay last, whichever way
    ? (a === undefined) - (b === undefined) : down ? order(b, a) : order(a, b)));
  made.tBodies[0].append(...keyed.map(([, row]) => row));
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
}

function makeSortable(made) {
  [...made.tHead.rows[0].cells].forEach((head, column) => {
    const button = make("button", undefined, { type: "button" });
    button.append(...head.childNodes);
    button.firstChild.after(make("span", "", { class: "sort", "aria-hidden": "true" }));
    head.append(button);
    button.addEventListener("click", () => sortTable(made, column));
  });
}

function trialsOf(cell, open) {
  const made = make("details"), head = make("summary"), swatch = make("span", "", { class: "swatch" });
  made.open = open;
  swatch.style.background = cell.color;
  head.append(swatch, make("b", cell.cell), ` ${cell.sweep} · ${cell.scale} · `,
    `${cell.n} of ${cell.trials.length} runs counted`);
  const list = make("table", undefined, { class: "small" });
  const top = list.createTHead().insertRow();
  for (const name of ["trial", "why", "seed, data", "status", "L95", "commit", "seconds"])
    top.append(make("th", name, { scope: "col" }));
  list.createTBody().append(...cell.trials.map(trialRow));
  const scroll = make("div", undefined,
    { class: "scroll", role: "region", "aria-label": `trials of ${cell.cell}`, tabindex: "0" });
  scroll.append(list);
  const line = make("p", `${cell.sweep}, ${cell.scale}: ${cell.complete}. `, { class: "hint" });
  const section = `${cell.sweep}-${cell.scale}`.replace(/[^A-Za-z0-9_-]/g, "-");
  line.append("Again: ", make("code", cell.command), ". ", make("a", "Its sweep", { href: `#${section}` }));
  made.append(head, scroll, line);
  return made;
}

function trialRow(trial) {
  const row = make("tr"), id = make("th", undefined, { scope: "row" }), why = make("td");
  const command = `python -m sweeps why ${trial.id} --results ${DATA.results}`;
  const button = make("button", "copy", { type: "button", class: "copy", title: command });
  button.addEventListener("click", () => copy(command, button));
  const status = make("td", trial.status, trial.status === "ok" ? {} : { class: "failed" });
  if (trial.error) status.append(make("small", trial.error.trim().split("\n").at(-1)));
  id.append(make("code", trial.id));
  why.append(button);
  row.append(id, why, make("td", `${trial.seed}, ${trial.data_seed}`, { class: "number" }), status,
    make("td", trial.L95, { class: "number" }),
    make("td", (trial.commit || "–") + (trial.dirty ? " and changes" : "")),
    make("td", trial.seconds === null ? "–" : trial.seconds.toFixed(0), { class: "number" }));
  return row;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch { // without a secure context
    button.replaceWith(make("code", text));
  }
}

const headName = (head) => head.querySelector("button").firstChild.textContent;

function sortOf() {
  const head = table.tHead.querySelector("[aria-sort]");
  return head ? [headName(head), head.getAttribute("aria-sort")] : null;
}

function readState() {
  const asked = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
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

function writeState() {
  const said = new URLSearchParams();
  for (const name of KEPT) if (form[name].value) said.set(name, form[name].value);
  if (sortOf()) said.set("sort", sortOf().join(":"));
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
  draw(document.getElementById("chart"), state.cells, height, { axisOf: form.axis.value });
  document.getElementById("trials").replaceChildren(
    ...state.cells.map((cell, i) => trialsOf(cell, i === state.cells.length - 1)));
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
  const box = table.parentElement;
  const highest = clicked.offsetTop - table.tHead.offsetHeight;
  const lowest = clicked.offsetTop + clicked.offsetHeight - box.clientHeight;
  box.scrollTop = Math.min(Math.max(box.scrollTop, lowest), highest);
}

function unsort() {
  table.tHead.querySelector("[aria-sort]")?.removeAttribute("aria-sort");
  table.tBodies[0].append(...CELLS.map((cell) => cell.row));
}

function filterBySweep(event) {
  event.preventDefault();
  form.reset();
  form.sweep.value = event.target.dataset.sweep;
  filter();
  writeState();
  document.getElementById("cells").scrollIntoView();
}

function start() {
  document.querySelectorAll("table[data-sortable]").forEach(makeSortable);
  const headline = document.getElementById("headline");
  if (headline) {
    const shown = headline.dataset.cells.split(" ").map((i) => CELLS[i]);
    const lead = CELLS[headline.dataset.lead];
    draw(headline, [lead, ...shown.filter((cell) => cell !== lead)], 340, { lead }); // under the others
  }
  const again = () => { filter(); show(); writeState(); };
  CELLS.forEach((cell) => cell.row.addEventListener("click", () => toggle(cell)));
  form.addEventListener("input", again);
  form.addEventListener("reset", () => setTimeout(() => { unsort(); again(); }));
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("clear").addEventListener("click", () => { state.cells = []; again(); });
  table.tHead.addEventListener("click", writeState);
  document.querySelectorAll("a[data-sweep]").forEach((link) => link.addEventListener("click", filterBySweep));
  const read = () => { readState(); filter(); show(); };
  addEventListener("hashchange", () => { if (location.hash.includes("=")) read(); }); // else: to a section
  read();
  new ResizeObserver(() => {
    for (const box of document.querySelectorAll(".chart"))
      box.chart?.setSize({ width: box.clientWidth, height: box.chart.height });
  }).observe(document.body);
  new ResizeObserver(keepInSight).observe(table.parentElement);
}

start();
