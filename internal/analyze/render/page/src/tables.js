// Sorting, filtering and unfolding of tables. Every row is a <tbody>, so that the
// lines under a row move with it.

const order = (cell) => (cell.dataset.sort === undefined ? null : Number(cell.dataset.sort));

function compare(a, b) {
  const x = order(a), y = order(b);
  if (x !== null && y !== null) return x - y;
  return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}

function sortBy(table, head, column) {
  // Figures are read from the largest down, names from A to Z.
  const first = head.classList.contains("num") ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const direction = head.getAttribute("aria-sort") === first ? other : first;
  for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const rows = [...table.tBodies];
  rows.sort((a, b) => sign * compare(a.rows[0].cells[column], b.rows[0].cells[column]));
  table.append(...rows);
}

function filter(table, term) {
  const needle = term.toLowerCase();
  let shown = 0;
  for (const body of table.tBodies) {
    const match = body.textContent.toLowerCase().includes(needle);
    body.hidden = !match;
    if (match) shown++;
  }
  return shown;
}

export function enhance(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = head.querySelector("button");
    if (button) button.addEventListener("click", () => sortBy(table, head, column));
  });
  for (const button of table.querySelectorAll("button.unfold")) {
    const target = document.getElementById(button.getAttribute("aria-controls"));
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
      target.hidden = !open;
    });
  }
  const input = document.querySelector(`input[data-filter="${table.id}"]`);
  if (input) {
    const result = input.parentElement.querySelector("output");
    input.addEventListener("input", () => {
      const n = filter(table, input.value);
      result.textContent = input.value ? `${n} of ${table.tBodies.length}` : "";
    });
  }
}
