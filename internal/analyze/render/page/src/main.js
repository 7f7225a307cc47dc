import { draw } from "./flame.js";
import { enhance } from "./tables.js";
import "./page.css";

for (const table of document.querySelectorAll("table.sortable")) enhance(table);

// Graphs are unpacked and drawn one at a time after the page has shown itself,
// and all of them before it is printed.
let waiting = null;
const next = () => {
  waiting ??= JSON.parse(document.getElementById("flame-data").textContent).map((flame, i) => [document.getElementById(`flame-${i}`), flame]);
  const graph = waiting.shift();
  if (graph) draw(...graph);
  return waiting.length > 0;
};
const drawNext = () => { if (next()) setTimeout(drawNext); };
// A hidden page gets no frames.
if (document.hidden) setTimeout(drawNext);
else requestAnimationFrame(() => setTimeout(drawNext));
addEventListener("beforeprint", () => { while (next()); });
