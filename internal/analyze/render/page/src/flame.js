// One flame graph: d3-flame-graph with sides, colours by change, search and keys.
import { select } from "d3-selection";
import flamegraph from "d3-flame-graph";
import { amount, percent } from "./units.js";

const KINDS = ["#ffb35c", "#ffdca8", "#d5d5d5", "#a9cdeb", "#efefef", "#cbe3c4"]; // app, std, runtime, kernel, mark, native
const LESS = ["#e6e6e6", "#d2e6f5", "#abd1ed", "#82bae3", "#5aa2d8"];
const MORE = ["#e6e6e6", "#fce3c5", "#fbc98d", "#f7ab54", "#ee8a1d"];
const FOUND = "#e47be4";
const CELL = 18; // px, a frame's height
const BOUNDS = [0.05, 0.15, 0.35, 0.7];

// unpack turns [frame, baseline, candidate, [children]] into nodes with totals
// (t) and own values (s) of both sides. The depth is bounded by the writer.
function unpack(packed, frames) {
  const [index, a, b, children] = packed;
  const [label, kind, full] = frames[index];
  const node = { label, full: full || label, kind, t: [a, b], s: [a, b] };
  if (children) {
    node.children = children.map((c) => unpack(c, frames));
    for (const c of node.children) {
      node.s[0] -= c.t[0];
      node.s[1] -= c.t[1];
    }
  }
  node.s = node.s.map((v, i) => (v > node.t[i] * 1e-9 ? v : 0));
  return node;
}

function step([a, b]) {
  const most = Math.max(a, b);
  if (most <= 0) return 0;
  const part = (b - a) / most;
  const size = BOUNDS.filter((bound) => Math.abs(part) >= bound).length;
  return part < 0 ? -size : size;
}

const sign = (t) => ["▼ ", "", "▲ "][Math.sign(step(t)) + 1];

function describe(node, flame, root) {
  const [a, b] = node.t;
  if (flame.sides !== 2) {
    return `${node.full}\n${amount(a, flame.unit)}, ${percent(a / (root.t[0] || 1))} of all`;
  }
  let change = `${amount(a, flame.unit)} → ${amount(b, flame.unit)}`;
  if (a === 0 && b > 0) change = `new: ${change}`;
  else if (b === 0 && a > 0) change = `gone: ${change}`;
  else if (a > 0) {
    const ratio = b / a;
    const times = ratio >= 0.1 ? ratio.toFixed(2) : ratio.toPrecision(2);
    change += ` (${b > a ? "+" : ""}${amount(b - a, flame.unit)}, ${times}×)`;
  }
  return `${node.full}\n${change}`;
}

// hover is a tooltip of text only: names never become markup.
function hover(describeNode) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.querySelector("main").append(tip);
  const place = (event) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    const below = event.clientY + 18;
    tip.style.top = `${below + box.height > innerHeight ? event.clientY - box.height - 10 : below}px`;
  };
  const tooltip = () => {};
  tooltip.show = (event, d) => {
    tip.textContent = describeNode(d.data);
    tip.hidden = false;
    place(event);
  };
  tooltip.hide = () => { tip.hidden = true; };
  return tooltip;
}

export function draw(section, flame) {
  const root = unpack(flame.root, flame.frames);
  const holder = section.querySelector(".flame");
  const status = section.querySelector(".status");
  const found = section.querySelector(".found");
  const search = section.querySelector("input[type=search]");
  const idle = status.textContent;
  let side = "both";

  const value = {
    baseline: (n) => n.s[0],
    candidate: (n) => n.s[1],
    both: (n) => Math.max(n.s[0], n.s[1]),
  };
  const tooltip = hover((n) => describe(n, flame, root));
  const chart = flamegraph()
    .width(holder.clientWidth)
    .cellHeight(CELL)
    .minFrameSize(0.8)
    .transitionDuration(0)
    .inverted(true)
    .selfValue(true)
    .tooltip(tooltip)
    .getName((d) => (flame.sides === 2 ? sign(d.data.t) : "") + d.data.label)
    .getValue((d) => (d.data ? d.value : value[side](d)))
    .setLabelHandler((d) => describe(d.data, flame, root))
    .setDetailsHandler((text) => { status.textContent = text ? text.replace("\n", "   ") : idle; })
    .setColorMapper((d) => {
      if (d.highlight) return FOUND;
      if (flame.sides !== 2) return KINDS[d.data.kind] || KINDS[0];
      const size = step(d.data.t);
      return size < 0 ? LESS[-size] : MORE[size];
    })
    .setSearchMatch((d, term) => term !== "" && d.data.full.toLowerCase().includes(term.toLowerCase()))
    .setSearchHandler((results) => {
      const matched = new Set(results);
      const sum = [0, 0];
      for (const d of results) {
        let p = d.parent;
        while (p && !matched.has(p)) p = p.parent;
        if (p) continue; // counted with its ancestor
        sum[0] += d.data.t[0];
        sum[1] += d.data.t[1];
      }
      const amounts = sum.slice(0, flame.sides).map((v, i) => `${amount(v, flame.unit)} (${percent(v / (root.t[i] || 1))})`);
      found.textContent = `${results.length} found: ${amounts.join(" → ")}`;
    });
  select(holder).datum(root).call(chart);

  const svg = holder.querySelector("svg");
  settle(svg);
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("role", "application");
  svg.setAttribute("aria-label", `${flame.title}. Arrow keys move, Enter zooms, Escape resets.`);
  const tree = select(holder).datum();

  search.addEventListener("input", () => {
    const term = search.value.trim();
    if (term) {
      chart.search(term);
    } else {
      chart.clear();
      found.textContent = "";
    }
  });
  const reset = () => { chart.resetZoom(); settle(svg); holder.scrollTop = 0; };
  section.querySelector("button.reset").addEventListener("click", reset);
  for (const radio of section.querySelectorAll("input[type=radio]")) {
    radio.addEventListener("change", () => {
      side = radio.value;
      chart.resetZoom();
      settle(svg);
      if (search.value.trim()) chart.search(search.value.trim());
    });
  }
  keys(svg, holder, tree, chart, reset, (d) => { status.textContent = describe(d.data, flame, root).replace("\n", "   "); });

  // On paper the drawing shrinks to the sheet as it is.
  addEventListener("beforeprint", () => {
    settle(svg);
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
  });
  addEventListener("afterprint", () => svg.removeAttribute("viewBox"));

  let width = holder.clientWidth;
  new ResizeObserver(() => {
    if (holder.clientWidth === width || holder.clientWidth === 0) return;
    width = holder.clientWidth;
    chart.width(width).update();
    settle(svg);
  }).observe(holder);
}

// settle ends the chart's transitions, which have no setting of their own for
// new boxes: half a box drawn is a wrong amount, and paper keeps it.
function settle(svg) {
  const width = Number(svg.getAttribute("width"));
  select(svg).selectAll("g.frame").interrupt()
    .attr("transform", (d) => `translate(${d.x0 * width},${d.depth * CELL})`)
    .select("rect").interrupt()
    .attr("width", function () { return this.parentNode.getAttribute("width"); });
  select(svg).selectAll(".d3-flame-graph-label").interrupt()
    .text(function () { return this.closest("g").getAttribute("name"); });
}

// keys walks the tree without a mouse.
function keys(svg, holder, tree, chart, reset, say) {
  let current = tree;
  const visible = (d) => d && d.value > 0;
  const mark = () => {
    let box = null;
    select(svg).selectAll("g").classed("current", function (d) {
      if (d === current) box = this;
      return d === current;
    });
    if (box) box.scrollIntoView({ block: "nearest" });
    say(current);
  };
  const sibling = (by) => {
    const all = current.parent ? current.parent.children.filter(visible) : [current];
    return all[all.indexOf(current) + by];
  };
  const moves = {
    ArrowDown: () => (current.children || []).filter(visible).sort((a, b) => b.value - a.value)[0],
    ArrowUp: () => current.parent,
    ArrowLeft: () => sibling(-1),
    ArrowRight: () => sibling(1),
  };
  svg.addEventListener("keydown", (event) => {
    if (event.key in moves) current = moves[event.key]() || current;
    else if (event.key === "Enter" || event.key === " ") chart.zoomTo(current);
    else if (event.key === "Escape") { reset(); current = tree; }
    else return;
    event.preventDefault();
    mark();
  });
  svg.addEventListener("focus", mark);
  svg.addEventListener("blur", () => select(svg).selectAll("g").classed("current", false));
}
