"use strict";

// The learning curves with their points and bands, the target, and where each network reaches it.

const CHANCES = 70; // height of the chances
const LABELLED = 3; // networks whose N is written beside its mark
const HALO = { stroke: "var(--paper)", "stroke-width": 3, "paint-order": "stroke", "stroke-linejoin": "round" };

const clipped = (value, low, high) => Math.min(Math.max(value, low), high);

function add(parent, name, attributes = {}, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return parent ? parent.appendChild(element) : element;
}

function path(points, closed = false) {
  return `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}${closed ? "Z" : ""}`;
}

const SHAPES = {
  s: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
  "^": [[0, -1.2], [1.15, 0.9], [-1.15, 0.9]],
  v: [[0, 1.2], [1.15, -0.9], [-1.15, -0.9]],
  D: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  P: [[-0.45, -1.2], [0.45, -1.2], [0.45, -0.45], [1.2, -0.45], [1.2, 0.45], [0.45, 0.45], [0.45, 1.2], [-0.45, 1.2],
    [-0.45, 0.45], [-1.2, 0.45], [-1.2, -0.45], [-0.45, -0.45]],
  star: Array.from({ length: 10 }, (_, i) => {
    const [angle, r] = [(Math.PI * i) / 5, i % 2 ? 0.75 : 1.8];
    return [r * Math.sin(angle), -r * Math.cos(angle)];
  }),
};

/** Matplotlib's markers; those that are not known are circles. */
function marker(parent, kind, x, y, r, attributes) {
  const shape = SHAPES[kind];
  if (!shape) return add(parent, "circle", { cx: x.toFixed(1), cy: y.toFixed(1), r, ...attributes });
  return add(parent, "path", { d: path(shape.map(([u, v]) => [x + r * u, y + r * v]), true), ...attributes });
}

// Axes

function logTicks(low, high, most) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const inside = (value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
  const decades = Array.from({ length: last - first + 1 }, (_, i) => Number(`1e${first + i}`));
  for (const steps of [[1, 2, 3, 4, 5, 6, 8], [1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
    const all = decades.flatMap((decade) => steps.map((step) => Number((decade * step).toPrecision(2))));
    const ticks = all.filter(inside);
    if (ticks.length <= most && ticks.length > 1) return ticks;
  }
  const every = Math.ceil(decades.filter(inside).length / most);
  const ticks = decades.filter((value, i) => inside(value) && (first + i) % every === 0);
  return ticks.length > 1 ? ticks : linearTicks(low, high, most);
}

function linearTicks(low, high, most) {
  const step = niceAbove((high - low) / most);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) =>
    Number(((first + i) * step).toPrecision(12)),
  );
}

function tickText(value) {
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return value.toLocaleString("en-US", { maximumSignificantDigits: 6 });
  const [mantissa, exponent] = value.toExponential().split("e");
  const raised = [...String(Number(exponent))].map((digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)]).join("");
  return `${mantissa === "1" ? "" : `${mantissa}·`}10${raised}`;
}

function niceAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= value * (1 - 1e-9));
}

/** A function from values to pixels, with its inverse. */
function scale([low, high], [start, end], logarithmic) {
  const [forth, back] = logarithmic ? [Math.log, Math.exp] : [(v) => v, (v) => v];
  const [a, b] = [forth(low), forth(high)];
  const place = (value) => start + ((forth(value) - a) / (b - a)) * (end - start);
  Object.assign(place, { start, end });
  place.inverse = (pixel) => back(a + ((pixel - start) / (end - start)) * (b - a));
  return place;
}

function limits(values, logarithmic) {
  const [forth, back] = logarithmic ? [Math.log, Math.exp] : [(v) => v, (v) => v];
  const seen = values.filter((value) => value !== null && (!logarithmic || value > 0)).map(forth);
  const [low, high] = [seen.reduce((a, b) => Math.min(a, b)), seen.reduce((a, b) => Math.max(a, b))];
  const margin = Math.max(0.07 * (high - low), logarithmic ? 0.05 : 1e-9 * Math.max(1, Math.abs(high)));
  return [back(low - margin), back(high + margin)];
}

function drawAxes(svg, box, x, y, logarithmic, sweep) {
  const [low, high] = [y.inverse(box.bottom), y.inverse(box.top)];
  for (const value of logarithmic ? logTicks(low, high, 7) : linearTicks(low, high, 6)) {
    const at = y(value).toFixed(1);
    add(svg, "line", { x1: box.left, x2: box.right, y1: at, y2: at, stroke: "var(--line)", "stroke-width": 0.8 });
    const look = { dy: "0.34em", "text-anchor": "end", fill: "var(--muted)" };
    add(svg, "text", { x: box.left - 7, y: at, ...look }, tickText(value));
  }
  const most = clipped(Math.floor((box.right - box.left) / 62), 3, 10);
  for (const value of logTicks(x.inverse(box.left), x.inverse(box.right), most)) {
    const at = x(value);
    add(svg, "line", { x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4, stroke: "var(--muted)" });
    const end = at > box.right - 18;
    const look = { "text-anchor": end ? "end" : "middle", fill: "var(--muted)" };
    add(svg, "text", { x: end ? box.right + 10 : at, y: box.bottom + 17, ...look }, tickText(value));
  }
  const frame = [[box.left, box.top - 4], [box.left, box.bottom], [box.right, box.bottom]];
  add(svg, "path", { d: path(frame), fill: "none", stroke: "var(--muted)" });
  const look = { "text-anchor": "middle", fill: "var(--ink)" };
  add(svg, "text", { x: (box.left + box.right) / 2, y: box.bottom + 37, ...look }, `training ${sweep.counts} N`);
  add(svg, "text", { transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`, ...look }, sweep.axis);
}

// The plot

/** {svg, x, y}: the picture in this width, and the functions from N and values to places in it. */
function drawPlot({ sweep, target, value, rows, title }, width) {
  const logarithmic = !sweep.score;
  const legend = legendRows(rows, width);
  const box = { left: 62, right: width - 14, top: 16 + 20 * legend.length };
  box.bottom = box.top + clipped(0.4 * width, 200, 320);
  const lower = { ...box, top: box.bottom + 58, bottom: box.bottom + 58 + CHANCES };
  const svg = add(null, "svg", { viewBox: `0 0 ${width} ${lower.bottom + 46}`, role: "img", "aria-label": title });
  const ends = rows.map(({ arch, n }) => Math.max(4 * arch.pilot[0].at(-1), Math.min(1.5 * (n || 0), arch.far)));
  const last = niceAbove(Math.max(...ends));
  const first = Math.min(...rows.map(({ arch }) => arch.N[0]));
  const x = scale([first / 1.15, last], [box.left, box.right], true);
  const near = rows.flatMap(({ arch: { N, band, pilot, runs } }) => [
    ...band[1].filter((_, i) => N[i] <= last),
    ...pilot[1],
    ...runs.flat(),
  ]);
  const y = scale(limits([...near, value], logarithmic), [box.bottom, box.top], logarithmic);
  drawAxes(svg, box, x, y, logarithmic, sweep);
  const inside = add(svg, "clipPath", { id: "inside" });
  add(inside, "rect", { x: box.left, y: box.top - 4, width: box.right - box.left, height: box.bottom - box.top + 4 });
  const area = add(svg, "g", { "clip-path": "url(#inside)" });
  const group = (arch) => add(area, "g", { class: "arch", style: `--base: ${arch.colour}` });
  for (const { arch } of rows) drawCurve(group(arch), arch, x, y);
  const line = { x1: box.left, x2: box.right, y1: y(value), y2: y(value) };
  add(area, "line", { ...line, stroke: "var(--ink)", "stroke-dasharray": "2 4", "stroke-width": 1.3 });
  const apart = Math.min(8, 20 / Math.max(1, rows.length - 1)); // bars, so that one does not hide another
  rows.forEach((row, i) => {
    const place = y(value) + apart * (i - (rows.length - 1) / 2);
    drawAnswer(group(row.arch), row, x, place, last);
    if (rows.length > LABELLED || row.n === null) return;
    const below = i === rows.length - 1 || place - 19 < box.top;
    const half = 4 * row.samples.length;
    const at = clipped(x(row.n), box.left + half + 2, box.right - half - 2);
    const height = clipped(below ? place + 20 : place - 11, box.top + 8, box.bottom - 4);
    const look = { "text-anchor": "middle", "font-weight": 600, fill: "var(--arch)", ...HALO };
    add(group(row.arch), "text", { x: at, y: height, ...look }, row.samples);
  });
  const bars = rows.filter(({ nLow }) => nLow !== null);
  const before = Math.min(...bars.map(({ nLow }) => x(nLow))) - box.left;
  const behind = box.right - Math.max(...bars.map(({ nHigh }) => x(nHigh ?? last)));
  const right = behind >= before || !bars.length;
  const side = right ? { x: box.right - 4, "text-anchor": "end" } : { x: box.left + 4, "text-anchor": "start" };
  const height = y(value) < box.top + 18 ? y(value) + 17 : y(value) - 9;
  add(area, "text", { ...side, y: height, fill: "var(--ink)", ...HALO }, `target ${target}`);
  drawChances(svg, lower, x, rows, sweep);
  drawLegend(svg, legend);
  add(svg, "line", { class: "at", y1: box.top - 4, y2: lower.bottom, stroke: "var(--muted)", "stroke-width": 0.8 });
  add(svg, "line", { ...line, class: "grip" });
  return { svg, x, y };
}

/** The chance that each network reaches the target, against N. */
function drawChances(svg, box, x, rows, sweep) {
  const y = scale([0, 100], [box.bottom, box.top], false);
  drawAxes(svg, box, x, y, false, { ...sweep, axis: "chance, %" });
  for (const { arch, chances } of rows) {
    const points = arch.octaves.map((N, i) => [x(N), y(chances[i])]);
    const group = add(svg, "g", { class: "arch chance", style: `--base: ${arch.colour}`, "clip-path": "url(#below)" });
    add(group, "path", { d: path(points), fill: "none", stroke: "var(--arch)", "stroke-width": 1.8 });
  }
  const below = add(svg, "clipPath", { id: "below" });
  add(below, "rect", { x: box.left, y: box.top - 4, width: box.right - box.left, height: CHANCES + 8 });
}

function drawCurve(parent, { N, band, pilot: [sizes, means], runs, marker: kind }, x, y) {
  const drawable = ([, v]) => Number.isFinite(v);
  const at = (values) => values.map((value, i) => [x(N[i]), value === null ? NaN : y(value)]).filter(drawable);
  const [low, middle, high] = band.map(at);
  add(parent, "path", { d: path([...low, ...high.reverse()], true), fill: "var(--arch)", opacity: 0.16 });
  const marks = runs.flatMap((values, k) => values.map((value) => [x(sizes[k]), value === null ? NaN : y(value)]));
  const dashes = marks.filter(drawable).map(([u, v]) => `M${(u - 4).toFixed(1)},${v.toFixed(1)}h8`);
  add(parent, "path", { d: dashes.join(""), stroke: "var(--arch)", "stroke-width": 1, opacity: 0.6 });
  add(parent, "path", { d: path(middle), fill: "none", stroke: "var(--arch)", "stroke-width": 1.8 });
  sizes.forEach((n, k) => {
    const height = means[k] === null ? NaN : y(means[k]);
    if (Number.isFinite(height)) marker(parent, kind, x(n), height, 3.6, { fill: "var(--arch)" });
  });
}

/** The interval of N as a bar, open where it has no upper end, and a star at N. */
function drawAnswer(parent, { n, nLow, nHigh }, x, y, last) {
  if (nLow === null) return;
  const [start, end] = [x(nLow), x(Math.min(nHigh ?? last, last))];
  const look = { "stroke-width": 5, opacity: 0.55, "stroke-linecap": nHigh === null ? "butt" : "round" };
  add(parent, "line", { x1: start, x2: Math.max(end, start + 0.5), y1: y, y2: y, stroke: "var(--arch)", ...look });
  const star = { fill: "var(--arch)", stroke: "var(--paper)", "stroke-width": 0.8 };
  if (n !== null) marker(parent, "star", x(n), y, 4.6, star);
}

/** The entries of the legend, in lines that fit. */
function legendRows(rows, width) {
  const lines = [[]];
  let used = 62;
  for (const { arch } of rows) {
    const label = arch.label.length > 28 ? `${arch.label.slice(0, 27)}…` : arch.label;
    const size = 44 + 7.2 * label.length;
    if (used + size > width && lines.at(-1).length) {
      lines.push([]);
      used = 62;
    }
    lines.at(-1).push({ arch, label, x: used });
    used += size;
  }
  return lines;
}

function drawLegend(svg, lines) {
  lines.forEach((line, i) => {
    for (const { arch, label, x } of line) {
      const group = add(svg, "g", { class: "arch", style: `--base: ${arch.colour}` });
      const y = 12 + 20 * i;
      add(group, "line", { x1: x, x2: x + 18, y1: y, y2: y, stroke: "var(--arch)", "stroke-width": 1.8 });
      marker(group, arch.marker, x + 9, y, 3.6, { fill: "var(--arch)" });
      add(group, "text", { x: x + 23, y, dy: "0.34em", fill: "var(--ink)" }, label);
    }
  });
}
