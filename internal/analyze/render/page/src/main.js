import { draw } from "./flame.js";
import { enhance } from "./tables.js";
import "./page.css";

for (const table of document.querySelectorAll("table.sortable")) enhance(table);

const flames = JSON.parse(document.getElementById("flame-data").textContent);
flames.forEach((flame, i) => draw(document.getElementById(`flame-${i}`), flame));
