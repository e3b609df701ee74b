// Drawing: elements, scales with axes, marks that differ in shape as well as colour, and the note beside the pointer.

const SHAPES = ["circle", "square", "triangle", "diamond", "down", "plus", "cross"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2"];
const COLOURS = 6;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  // Strings become text nodes, never markup: names come from files of others.
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text = value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
  return Number(text) === 0 ? "0" + (text.includes(".") ? "." + text.split(".")[1] : "") : text.replace("-", "−");
}
const short = (value) => String(Number(value.toPrecision(3))).replace("-", "−");
const percent = (share) => `${Math.round(100 * share)}\u00a0%`.replace("-", "−");
const between = (interval) => (interval.low === null ? "one episode" : `${number(interval.low)} to ${number(interval.high)}`);

function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const found = [];
  for (let place = Math.ceil(low / step); place * step <= high + 1e-9 * step; place += 1) found.push(place * step);
  return found;
}

// The ticks' labels: three digits, or as many as tell one from the next.
function tickLabels(values) {
  const labels = values.map(short);
  if (new Set(labels).size === values.length) return labels;
  const digits = Math.max(0, Math.ceil(-Math.log10(values[1] - values[0]) - 1e-9));
  return values.map((value) => value.toFixed(digits).replace("-", "−"));
}

// The range of `values` with some air, from zero if that is near.
function extent(values, air = 0.06) {
  const there = values.filter((value) => Number.isFinite(value));
  let low = there.reduce((least, value) => Math.min(least, value), Infinity);
  let high = there.reduce((most, value) => Math.max(most, value), -Infinity);
  if (!there.length) return [0, 1];
  if (low > 0 && low < 0.5 * high) low = 0;
  if (high < 0 && high > 0.5 * low) high = 0;
  const room = air * (high - low) || Math.abs(high) * 0.1 || 1;
  return [low === 0 ? -0.35 * room : low - room, high === 0 ? 0.35 * room : high + room];
}

function mark(shape, x, y, r) {
  const at = (...pairs) => `M${pairs.map(([a, b]) => `${(x + a * r).toFixed(1)} ${(y + b * r).toFixed(1)}`).join("L")}`;
  switch (shape) {
    case "square": return at([-0.88, -0.88], [0.88, -0.88], [0.88, 0.88], [-0.88, 0.88]) + "Z";
    case "triangle": return at([0, -1.15], [1.08, 0.8], [-1.08, 0.8]) + "Z";
    case "down": return at([0, 1.15], [1.08, -0.8], [-1.08, -0.8]) + "Z";
    case "diamond": return at([0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]) + "Z";
    case "plus": return at([-0.35, -1.1], [0.35, -1.1], [0.35, -0.35], [1.1, -0.35], [1.1, 0.35], [0.35, 0.35],
      [0.35, 1.1], [-0.35, 1.1], [-0.35, 0.35], [-1.1, 0.35], [-1.1, -0.35], [-0.35, -0.35]) + "Z";
    case "cross": return at([-1.1, -0.7], [-0.7, -1.1], [0, -0.4], [0.7, -1.1], [1.1, -0.7], [0.4, 0], [1.1, 0.7],
      [0.7, 1.1], [0, 0.4], [-0.7, 1.1], [-1.1, 0.7], [-0.4, 0]) + "Z";
    default: return `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
  }
}

// A name keeps its colour, shape and dashes in every picture.
const given = new Map();
function style(name) {
  if (!given.has(name)) given.set(name, given.size);
  const place = given.get(name);
  return {
    colour: `var(--s${place % COLOURS})`, shape: SHAPES[place % SHAPES.length], dashes: DASHES[place % DASHES.length],
  };
}
// The same in every picture: what was measured is filled and solid, what is predicted hollow and dashed, logs are grey.
const PREDICTED = "6 4";
const LOGGED = { colour: "var(--data)", shape: "circle" };
const painted = (colour, predicted) =>
  (predicted ? { fill: "var(--card)", stroke: colour, "stroke-width": 2 } : { fill: colour });
function swatch(name, predicted = false) {
  const { colour, shape } = style(name);
  return sample(shape, painted(colour, predicted));
}
const sample = (shape, paint) => svg("svg", { class: "swatch", viewBox: "-8 -8 16 16", "aria-hidden": "true" },
  svg("path", { d: mark(shape, 0, 0, 5.5), ...paint }));
function legendOf({ measured, predicted, logged }) {
  return [
    measured ? el("span", {}, sample("circle", painted("var(--quiet)", false)), "measured, with 95\u00a0% bounds") : null,
    predicted ? el("span", {}, sample("circle", painted("var(--quiet)", true)), "predicted from the logs, dashed") : null,
    logged ? el("span", {}, sample(LOGGED.shape, painted(LOGGED.colour, false)), "the logged episodes") : null,
  ].filter((each) => each !== null);
}

// A plot with axes. `describe()` gives its ranges and draws into it; it is called again when the width changes.
function chart(host, describe) {
  const root = svg("svg", { class: "chart", role: "img" });
  host.append(root);
  let plot = null;
  let moved = null;
  function redraw() {
    const spec = describe(root.clientWidth || 320);
    const width = root.clientWidth || 320;
    const left = spec.left ?? 46, right = 12, top = spec.top ?? 14, bottom = spec.x.label ? 42 : 24;
    const height = spec.height;
    const scale = ([low, high], from, to) => (value) => from + ((value - low) / (high - low)) * (to - from);
    plot = { root, width, height, left, top, right: width - right, bottom: height - bottom };
    plot.x = scale(spec.x.range, plot.left, plot.right);
    plot.y = scale(spec.y.range, plot.bottom, plot.top);
    plot.add = (name, attributes, ...children) => root.appendChild(svg(name, attributes, ...children));
    root.replaceChildren(svg("title", {}, spec.title));
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    root.setAttribute("height", height);
    axes(plot, spec);
    spec.draw(plot);
    moved = spec.moved || null;
    if (spec.keys) root.setAttribute("tabindex", "0");
    root.onkeydown = spec.keys || null;
  }
  const point = (event) => {
    const box = root.getBoundingClientRect();
    if (moved) moved(plot, event.clientX - box.left, event.clientY - box.top, event);
  };
  root.addEventListener("pointermove", point);
  root.addEventListener("pointerdown", point);
  root.addEventListener("pointerleave", () => { hideTip(); if (moved) moved(plot, null, null); });
  new ResizeObserver(() => { if (!plot || Math.abs(plot.width - root.clientWidth) > 1) redraw(); }).observe(root);
  return { redraw, root, plot: () => plot };
}

function axes(plot, spec) {
  const heights = spec.y.ticks ?? ticks(...spec.y.range, Math.max(2, Math.round((plot.bottom - plot.top) / 45)));
  const labels = tickLabels(heights);
  for (const [place, value] of heights.entries()) {
    const y = plot.y(value);
    plot.add("line", { class: "grid", x1: plot.left, x2: plot.right, y1: y, y2: y });
    plot.add("text", { x: plot.left - 7, y: y + 4, "text-anchor": "end" }, labels[place]);
  }
  for (const value of ticks(...spec.x.range, Math.max(3, Math.round((plot.right - plot.left) / 90)))) {
    plot.add("text", { x: plot.x(value), y: plot.bottom + 17, "text-anchor": "middle" }, short(value));
  }
  plot.add("line", { class: "axis", x1: plot.left, x2: plot.right, y1: plot.bottom, y2: plot.bottom });
  if (spec.x.label) {
    plot.add("text", { x: (plot.left + plot.right) / 2, y: plot.bottom + 36, "text-anchor": "middle" }, spec.x.label);
  }
  if (spec.y.label) plot.add("text", { x: plot.left - 36, y: plot.top - 9 }, spec.y.label);
}

// The budget as an upright line with what lies beyond it tinted.
function uprightBudget(plot, value, words, low = false) {
  const x = plot.x(value);
  if (x > plot.right) return;
  plot.add("rect", { class: "beyond", x, y: plot.top, width: plot.right - x, height: plot.bottom - plot.top });
  plot.add("line", { class: "budget", "data-budget": value, x1: x, x2: x, y1: plot.top, y2: plot.bottom });
  const late = x > plot.right - 90;
  plot.add("text", { class: "budget", x: x + (late ? -5 : 5), y: low ? plot.bottom - 8 : plot.top + 8, "text-anchor": late ? "end" : "start" }, words);
}
function levelBudget(plot, value, words) {
  const y = plot.y(value);
  if (y < plot.top) return;
  plot.add("rect", { class: "beyond", x: plot.left, y: plot.top, width: plot.right - plot.left, height: y - plot.top });
  plot.add("line", { class: "budget", "data-budget": value, x1: plot.left, x2: plot.right, y1: y, y2: y });
  plot.add("text", { class: "budget", x: plot.left + 4, y: y < plot.top + 16 ? y + 14 : y - 5 }, words);
}

const line = (pairs) => pairs.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
const band = (upper, lower) => `${line(upper)}L${line([...lower].reverse()).slice(1)}Z`;

// The corners of the smallest convex shape around some points (Andrew's monotone chain).
function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const half = (list) => {
    const chain = [];
    for (const p of list) {
      while (chain.length > 1 && turn(chain[chain.length - 2], chain[chain.length - 1], p) <= 0) chain.pop();
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

function showTip(event, words) {
  const tip = document.getElementById("tip");
  tip.textContent = words;
  tip.hidden = false;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const y = event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18;
  tip.style.left = `${Math.max(8, x)}px`;
  tip.style.top = `${y}px`;
}
function hideTip() { document.getElementById("tip").hidden = true; }

// The nearest of some drawn points, if the pointer is close to one.
function nearest(candidates, x, y, reach = 22) {
  let found = null, least = reach;
  for (const candidate of candidates) {
    const distance = Math.hypot(candidate.x - x, candidate.y - y);
    if (distance < least) [found, least] = [candidate, distance];
  }
  return found;
}
