"use strict";

// The learning curves with their points and bands, the target, and where each network reaches it.

const ON_SCREEN = { arch: () => "var(--arch)" };
for (const role of ["ink", "muted", "line", "paper"]) ON_SCREEN[role] = `var(--${role})`; // of page.css
const ON_PAPER = { ink: "#1d1f21", muted: "#55595c", line: "#dcdfe1", paper: "#ffffff", arch: ({ colour }) => colour };
const LABELLED = 3; // networks whose N is written beside its mark

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
    const found = all.filter(inside);
    if (found.length <= most && found.length > 1) return found;
  }
  const every = Math.ceil(decades.filter(inside).length / most);
  const found = decades.filter((value, i) => inside(value) && (first + i) % every === 0);
  return found.length > 1 ? found : linearTicks(low, high, most);
}

function linearTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) =>
    Number(((first + i) * step).toPrecision(12)),
  );
}

function tickText(value) {
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return size >= 1000 ? grouped(Math.round(value)) : general(value, 6);
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
  place.inverse = (pixel) => back(a + ((pixel - start) / (end - start)) * (b - a));
  return place;
}

function limits(values, logarithmic) {
  const seen = values.filter((value) => Number.isFinite(value) && (!logarithmic || value > 0));
  const forth = logarithmic ? Math.log : (v) => v;
  const low = seen.reduce((a, b) => Math.min(a, forth(b)), Infinity);
  const high = seen.reduce((a, b) => Math.max(a, forth(b)), -Infinity);
  const margin = Math.max(0.07 * (high - low), logarithmic ? 0.05 : 1e-9 * Math.max(1, Math.abs(high)));
  return logarithmic ? [Math.exp(low - margin), Math.exp(high + margin)] : [low - margin, high + margin];
}

// The plot

/** {svg, valueAt}: the picture in this width, and the target at a height of it. `found` are the plans. */
function drawPlot({ found, target, assurance, score, axis, title }, width, paint) {
  const rows = legendRows(found, width);
  const box = { left: 62, right: width - 14, top: 16 + 20 * rows.length, bottom: 0 };
  box.bottom = box.top + clipped(0.46 * width, 210, 360);
  const height = box.bottom + 46;
  const svg = add(null, "svg", {
    xmlns: "http://www.w3.org/2000/svg",
    viewBox: `0 0 ${width} ${height}`,
    "font-family": "system-ui, Helvetica, Arial, sans-serif",
    "font-size": 12,
    role: "img",
    "aria-label": title,
  });
  if (paint === ON_PAPER) {
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    add(svg, "rect", { width, height, fill: paint.paper });
  }
  const ends = found.flatMap(({ forecast, answer }) => [4 * forecast.largest, 1.5 * (answer.n || 0)]);
  const last = niceAbove(Math.max(...ends));
  const first = Math.min(...found.map(({ forecast }) => forecast.N[0]));
  const x = scale([first / 1.15, last], [box.left, box.right], true);
  const value = (error) => valueOf(error, score);
  const seen = found.flatMap(({ forecast }) => [
    ...forecast.band[1].filter((_, i) => forecast.N[i] <= last),
    ...forecast.pilot[1],
    ...forecast.runs.flat(),
  ]);
  const y = scale(limits([...seen, target].map(value), !score), [box.bottom, box.top], !score);
  drawAxes(svg, box, x, y, [first / 1.15, last], score, axis, paint);
  const inside = add(svg, "clipPath", { id: "inside" });
  add(inside, "rect", { x: box.left, y: box.top - 4, width: box.right - box.left, height: box.bottom - box.top + 4 });
  const area = add(svg, "g", { "clip-path": "url(#inside)" });
  const groups = found.map(({ forecast }) => {
    const of = add(area, "g", paint === ON_SCREEN ? { class: "arch", style: `--base: ${forecast.colour}` } : {});
    drawCurve(of, forecast, x, (error) => y(value(error)), paint.arch(forecast));
    return of;
  });
  const height0 = y(value(target));
  const line = { x1: box.left, x2: box.right, y1: height0, y2: height0 };
  add(area, "line", { ...line, stroke: paint.ink, "stroke-dasharray": "2 4", "stroke-width": 1.3 });
  const apart = Math.min(8, 20 / Math.max(1, found.length - 1)); // bars, so that one does not hide another
  const text = `target ${general(value(target), 6)}`;
  const bars = found.map(({ answer }) => answer).filter((answer) => answer.n_low !== null);
  const before = Math.min(...bars.map((answer) => x(answer.n_low))) - box.left;
  const behind = box.right - Math.max(...bars.map((answer) => x(answer.n_high || last)));
  const right = { x: box.right - 4, "text-anchor": "end" };
  const side = behind >= before || !bars.length ? right : { x: box.left + 4, "text-anchor": "start" };
  const note = { ...side, y: height0 - 9, fill: paint.ink, ...halo(paint) };
  found.forEach(({ forecast, answer }, i) => {
    const colour = paint.arch(forecast);
    const place = height0 + apart * (i - (found.length - 1) / 2);
    drawAnswer(groups[i], forecast.median(target, assurance), answer, x, place, colour, paint, last);
    if (found.length <= LABELLED && answer.n !== null) {
      const below = i === found.length - 1 || place - 19 < box.top;
      drawCount(groups[i], answer, x, box, below ? place + 20 : place - 11, colour, paint);
    }
    area.appendChild(groups[i]);
  });
  add(area, "text", note, text);
  drawLegend(svg, rows, paint);
  if (paint === ON_SCREEN) add(svg, "line", { ...line, class: "grip" });
  return { svg, valueAt: (pixel) => y.inverse(clipped(pixel, box.top, box.bottom)) };
}

function drawAxes(svg, box, x, y, [first, last], score, axis, paint) {
  const [low, high] = [y.inverse(box.bottom), y.inverse(box.top)];
  const yTicks = score ? linearTicks(low, high, 6) : logTicks(low, high, 7);
  for (const value of yTicks) {
    const at = y(value).toFixed(1);
    add(svg, "line", { x1: box.left, x2: box.right, y1: at, y2: at, stroke: paint.line, "stroke-width": 0.8 });
    const look = { dy: "0.34em", "text-anchor": "end", fill: paint.muted };
    add(svg, "text", { x: box.left - 7, y: at, ...look }, tickText(value));
  }
  for (const value of logTicks(first, last, clipped(Math.floor((box.right - box.left) / 62), 3, 10))) {
    const at = x(value).toFixed(1);
    add(svg, "line", { x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4, stroke: paint.muted });
    const anchor = x(value) > box.right - 18 ? "end" : "middle";
    const end = anchor === "end" ? box.right + 10 : at;
    add(svg, "text", { x: end, y: box.bottom + 17, "text-anchor": anchor, fill: paint.muted }, tickText(value));
  }
  const frame = [[box.left, box.top - 4], [box.left, box.bottom], [box.right, box.bottom]];
  add(svg, "path", { d: path(frame), fill: "none", stroke: paint.muted });
  const middle = (box.left + box.right) / 2;
  add(svg, "text", { x: middle, y: box.bottom + 37, "text-anchor": "middle", fill: paint.ink }, "training samples N");
  const turned = `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`;
  add(svg, "text", { transform: turned, "text-anchor": "middle", fill: paint.ink }, axis);
}

function drawCurve(parent, forecast, x, y, colour) {
  const at = (errors) => errors.map((error, i) => [x(forecast.N[i]), y(error)]).filter(([, v]) => Number.isFinite(v));
  const [low, middle, high] = forecast.band.map(at);
  add(parent, "path", { d: path([...low, ...high.reverse()], true), fill: colour, opacity: 0.16 });
  const [N, mean] = forecast.pilot;
  const runs = forecast.runs.flatMap((errors, k) => errors.map((error) => [x(N[k]), y(error)]));
  const drawn = runs.filter(([, v]) => Number.isFinite(v));
  const dashes = drawn.map(([u, v]) => `M${(u - 4).toFixed(1)},${v.toFixed(1)}h8`).join("");
  add(parent, "path", { d: dashes, stroke: colour, "stroke-width": 1, opacity: 0.6 });
  add(parent, "path", { d: path(middle), fill: "none", stroke: colour, "stroke-width": 1.8 });
  N.forEach((n, k) => {
    if (mean[k] > 0) marker(parent, forecast.marker, x(n), y(mean[k]), 3.6, { fill: colour });
  });
}

/** The interval of N as a bar, open where it has no upper end, and a star at N. */
function drawAnswer(parent, median, answer, x, y, colour, paint, last) {
  if (answer.n_low === null) return;
  const open = answer.n_high === null;
  const [start, end] = [x(answer.n_low), open ? x(last) : x(Math.min(answer.n_high, last))];
  const bar = { stroke: colour, "stroke-width": 5, opacity: 0.55, "stroke-linecap": open ? "butt" : "round" };
  add(parent, "line", { x1: start, x2: Math.max(end, start + 0.5), y1: y, y2: y, ...bar });
  if (answer.n === null) return;
  const look = { fill: colour, stroke: paint.paper, "stroke-width": 0.8 };
  marker(parent, "star", x(median), y, 4.6, look);
}

/** What keeps text readable on a line. */
function halo(paint) {
  return { stroke: paint.paper, "stroke-width": 3, "paint-order": "stroke", "stroke-linejoin": "round" };
}

function drawCount(parent, answer, x, box, y, colour, paint) {
  const text = grouped(answer.n);
  const half = 4 * text.length;
  const at = clipped(x(answer.n), box.left + half + 2, box.right - half - 2);
  const place = clipped(y, box.top + 8, box.bottom - 4);
  const look = { "text-anchor": "middle", "font-weight": 600, fill: colour, ...halo(paint) };
  add(parent, "text", { x: at, y: place, ...look }, text);
}

/** The entries of the legend, in lines that fit. */
function legendRows(found, width) {
  const rows = [[]];
  let used = 62;
  for (const { forecast } of found) {
    const label = forecast.label.length > 28 ? `${forecast.label.slice(0, 27)}…` : forecast.label;
    const size = 44 + 7.2 * label.length;
    if (used + size > width && rows[rows.length - 1].length) {
      rows.push([]);
      used = 62;
    }
    rows[rows.length - 1].push({ forecast, label, x: used });
    used += size;
  }
  return rows;
}

function drawLegend(svg, rows, paint) {
  rows.forEach((row, i) => {
    for (const { forecast, label, x } of row) {
      const of = add(svg, "g", paint === ON_SCREEN ? { class: "arch", style: `--base: ${forecast.colour}` } : {});
      const [y, colour] = [12 + 20 * i, paint.arch(forecast)];
      add(of, "line", { x1: x, x2: x + 18, y1: y, y2: y, stroke: colour, "stroke-width": 1.8 });
      marker(of, forecast.marker, x + 9, y, 3.6, { fill: colour });
      add(of, "text", { x: x + 23, y, dy: "0.34em", fill: paint.ink }, label);
    }
  });
}
