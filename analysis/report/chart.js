"use strict";
// Charts of cells: curves of their runs and medians, with a caption.

const COUNTED = ["ok", "diverged"];
const DASHES = [[], [8, 4], [2, 3], [9, 3, 2, 3], [4, 2], [1, 2]];
const LOG_SPAN = 8; // largest over smallest length from which on the axis is logarithmic
const FONT = "12px system-ui, sans-serif";
const CSS = getComputedStyle(document.documentElement);
const color = (name) => CSS.getPropertyValue(`--${name}`).trim();

// 0.9876 as the tables print it: only all is 100.0, only nothing is 0.0
function percent(value) {
  if (value === null || value === undefined) return "–";
  return (value > 0 && value < 100 ? Math.min(Math.max(value, 0.1), 99.9) : value).toFixed(1);
}

// The text where there is a value: in a legend, while the pointer is over the chart.
const said = (value, text) => (value === null || value === undefined ? "" : text);

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
  const colors = cells.map((cell) =>
    cell !== lead && cell.method_color === lead.method_color ? color("grey") : cell.method_color);
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
        value: (u, value, i, place) => said(place, `${percent(value)}${said(value, " %")}`) },
      at(cell.lengths, cell.median)]);
  });
  return [...runs, ...medians];
}

const several = (cells, name) => new Set(cells.map((cell) => cell[name])).size > 1;

// The chart of these cells in a box, in place of the one that was there. lead: one to be seen first;
// axisOf: "linear", "logarithmic" or, by the lengths, "".
function draw(box, cells, height, { lead, axisOf = "" } = {}) {
  box.chart?.destroy();
  box.chart = null;
  const shown = cells.filter((cell) => cell.lengths.length);
  box.nextElementSibling.textContent = caption(cells, lead);
  box.hidden = !shown.length;
  if (!shown.length) return;
  const range = commonRange(shown);
  const lengths = [...new Set([...shown.flatMap((cell) => cell.lengths), ...(range ?? [])])];
  lengths.sort((a, b) => a - b);
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
    series: [{ label: "length", value: (u, v) => said(v, v?.toLocaleString("en")) },
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
      + `thin: ${lead ? "its runs, and of every other encoding trained on these lengths the median of the cell that reaches furthest" : "runs"}. ${failed.length ? `${failed.join(", ")}.` : "No run failed."}`,
    range ? `Grey: the trained lengths ${range[0]}–${range[1]}.`
      : `Trained lengths: ${cells.map((c) => (c.trained ?? ["?"]).join("–")).join("; ")}.`,
    `Dotted: 95 %. Checkpoint: ${[...new Set(cells.map((c) => c.checkpoint))].join("; ")}.`,
  ].join(" ");
}
