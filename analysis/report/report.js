"use strict";
// Tables are sorted by their headers, with mouse or keyboard. Everything else needs no script.

function sortKey(row, column) {
  const cell = row.cells[column];
  return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, "en", { numeric: true });
}

function sortTable(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const down = heads[column].getAttribute("aria-sort") === "ascending";
  const keyed = [...table.tBodies[0].rows].map((row) => [sortKey(row, column), row]);
  // what has no number stays last, whichever way
  const missing = (key) => key === "–" || key === "";
  keyed.sort(([a], [b]) => missing(a) - missing(b) || (down ? compare(b, a) : compare(a, b)));
  table.tBodies[0].append(...keyed.map(([, row]) => row));
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    const sign = document.createElement("span");
    sign.className = "sort";
    sign.ariaHidden = "true";
    button.append(...head.childNodes);
    button.firstChild.after(sign); // beside the name, above the small print
    head.append(button);
    button.addEventListener("click", () => sortTable(table, column));
  });
}

// On paper nobody can open the rules and the table that they stand in.
addEventListener("beforeprint", () => {
  for (const rule of document.querySelectorAll("#verdicts details, #claims, #claims details")) rule.open = true;
});
