
"use strict";
(function () {
  // Sort a table by the column whose heading is pressed; cells that hold no number come last.
  function key(row, index, numeric) {
    const cell = row.cells[index];
    if (!numeric) return cell.textContent.trim().toLowerCase();
    const text = cell.dataset.sort;
    if (text === undefined || text === "nan") return null;
    if (text === "inf") return Infinity;
    return text === "-inf" ? -Infinity : Number(text);
  }
  function sort(table, index, descending) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const numeric = rows.some(function (row) { return row.cells[index].dataset.sort !== undefined; });
    rows.sort(function (a, b) {
      const x = key(a, index, numeric);
      const y = key(b, index, numeric);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = x < y ? -1 : x > y ? 1 : 0;
      return descending ? -order : order;
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }
  const buttons = [];
  document.querySelectorAll("table[data-sortable]").forEach(function (table) {
    if (table.tBodies[0].rows.length < 3) return;
    const headings = Array.from(table.tHead.rows[0].cells);
    headings.forEach(function (heading, index) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      button.title = "Sort by this column";
      heading.textContent = "";
      heading.appendChild(button);
      buttons.push([heading, button]);
      button.addEventListener("click", function () {
        const descending = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach(function (other) { other.removeAttribute("aria-sort"); });
        heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sort(table, index, descending);
      });
    });
  });
  // Paper cannot be unfolded: open folded tables for printing, but for those of hundreds of targets,
  // which fill a hundred pages that nobody reads. A heading that holds a button
  // is not repeated on the next page.
  let opened = [];
  window.addEventListener("beforeprint", function () {
    opened = Array.from(document.querySelectorAll("details:not([open], .bulk)"));
    opened.forEach(function (details) { details.open = true; });
    buttons.forEach(function (pair) { pair[0].textContent = pair[1].textContent; });
  });
  window.addEventListener("afterprint", function () {
    opened.forEach(function (details) { details.open = false; });
    buttons.forEach(function (pair) { pair[0].replaceChildren(pair[1]); });
  });
})();
