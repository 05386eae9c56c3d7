"use strict";

// The controls and what they change. Names come from files of others: they are only ever set as text.

const $ = (id) => document.getElementById(id);
const STEPS = 1000; // of the slider
const SPOKEN_AFTER = 600; // milliseconds without a change, so that a screen reader is not interrupted at every step
const state = { sweep: 0, targets: DATA.sweeps.map((sweep) => sweep.target), assured: false, assurance: 0.9 };
const read = DATA.sweeps.map(() => null); // the forecasts of a sweep, once they were needed
let shown = null; // what is on the page
let speaking = 0;

function sweepOf() {
  return DATA.sweeps[state.sweep];
}

function sweepText({ name, label }) {
  return label ? `${name} (${label})` : String(name);
}

function forecasts(i) {
  read[i] = read[i] || Promise.all(DATA.sweeps[i].archs.map((about) => Forecast.read(about)));
  return read[i];
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The slider moves on a logarithmic scale of errors; a score grows to the right, and so its error falls

function sliderTarget(place) {
  const { low, high, score } = sweepOf();
  const part = (score ? STEPS - place : place) / STEPS;
  const error = low * (high / low) ** part;
  return score ? Number(valueOf(error, score).toFixed(decimals(error, score) + 1)) : Number(error.toPrecision(3));
}

function sliderPlace(value) {
  const { low, high, score } = sweepOf();
  const part = Math.log(errorOf(value, score) / low) / Math.log(high / low);
  const place = clipped(Math.round(STEPS * part), 0, STEPS);
  return score ? STEPS - place : place;
}

/** What somebody typed as a number; NaN if it is none. */
function typed(text) {
  return text.trim() === "" ? NaN : Number(text);
}

function problem() {
  const target = $("target").value;
  if (target.includes(",")) return ["target", "Write decimals with a point, like 0.05"];
  const wrong = problemOf(typed(target), sweepOf().score);
  if (wrong) return ["target", wrong];
  const share = typed($("assurance").value);
  if (state.assured && !(share > 0 && share < 1)) {
    return ["assurance", "The share of runs must be between 0 and 1, for example 0.9"];
  }
  return [null, ""];
}

async function update() {
  const [wrong, why] = problem();
  for (const id of ["target", "assurance"]) $(id).setAttribute("aria-invalid", String(wrong === id));
  $("problem").textContent = why;
  $("results").classList.toggle("outdated", Boolean(wrong));
  $("assurance-field").hidden = !state.assured;
  if (wrong) return;
  const { sweep } = state;
  state.targets[sweep] = typed($("target").value);
  state.assurance = typed($("assurance").value) || state.assurance;
  const found = await forecasts(sweep);
  if (sweep === state.sweep) show(found);
}

function show(all) {
  const sweep = sweepOf();
  const value = state.targets[state.sweep];
  const assurance = state.assured ? state.assurance : null;
  const target = errorOf(value, sweep.score);
  const found = plans(all, target, assurance);
  const pair = paperPair(all);
  shown = { sweep, value, assurance, target, found, pair, sentence: summary(found, value, assurance, sweep.score) };
  $("target-range").setAttribute("aria-valuetext", general(value, 15));
  $("assurance-range").setAttribute("aria-valuetext", general(state.assurance, 6));
  $("answers-title").textContent = `Samples needed${sweep.name === null ? "" : `: ${sweepText(sweep)}`}`;
  $("summary").textContent = shown.sentence;
  showTable();
  $("factors").textContent = pair ? factorsInWords(pair, target) : "";
  const remarks = found.filter(({ answer }) => answer.reason);
  const several = all.length > 1;
  $("remarks").replaceChildren(
    ...remarks.map(({ forecast, answer }) => element("li", `${several ? `${forecast.label}: ` : ""}${answer.reason}.`)),
  );
  $("cost").textContent = sweep.cost ? `The cost is a power law of N, fitted to the column ${sweep.cost.column}.` : "";
  $("command").textContent = command();
  draw();
  clearTimeout(speaking);
  speaking = setTimeout(() => {
    $("live").textContent = shown.sentence;
  }, SPOKEN_AFTER);
}

/** The head of every column, and a function from a plan to the text of its cell: a value and its interval. */
function columns() {
  const { sweep, found } = shown;
  const what = sweep.score ? sweep.score.name : "error";
  const level = `${rounded(100 * DATA.level)} % interval`;
  return [
    ["Samples N", ({ answer }) => needed(answer)],
    [level, ({ answer }) => [interval(answer), ""]],
    ...(found.length > 1 ? [["Times the fewest", compared]] : []),
    [`Predicted ${what} at N`, ({ answer }) => predicted(answer, sweep.score)],
    ["Probability", ({ answer }) => [percent(answer.probability), ""]],
    ...(sweep.cost ? [["Cost of a run", (plan) => [cost(plan), ""]]] : []),
  ];
}

function compared(plan) {
  return plan === shown.found[0] ? ["1", ""] : times(ratio(plan), plan.answer);
}

function ratio(plan) {
  return ratios(shown.found[0].forecast, plan.forecast, shown.target, shown.assurance);
}

function cost({ forecast, answer }) {
  if (answer.n === null || !forecast.cost) return "–";
  return costInWords(forecast.costOf(answer.n), shown.sweep.cost.unit);
}

function cell(head, value, detail) {
  const made = element("td", "", { role: "cell", "data-head": head });
  const text = element("span", value, { class: "value" });
  if (detail) text.append(" ", element("span", detail, { class: "detail" }));
  made.append(text);
  return made;
}

function showTable() {
  const heads = columns();
  const header = element("tr", "", { role: "row" });
  const titles = ["Network", ...heads.map(([head]) => head)];
  header.append(...titles.map((head) => element("th", head, { scope: "col", role: "columnheader" })));
  $("head").replaceChildren(header);
  $("body").replaceChildren(
    ...shown.found.map((plan) => {
      const { forecast } = plan;
      const row = element("tr", "", { role: "row", "data-arch": forecast.name });
      const name = element("th", "", { scope: "row", role: "rowheader", class: "arch" });
      name.style.setProperty("--base", forecast.colour);
      const key = add(null, "svg", { viewBox: "0 0 18 12", "aria-hidden": "true", class: "key" });
      marker(key, forecast.marker, 9, 6, 4.2, { fill: "var(--arch)" });
      const law = forecast.law.replace(/ (\d+) %/g, `${SPACE}$1${SPACE}%`);
      name.append(key, element("span", forecast.label, { class: "name" }), element("span", law, { class: "law" }));
      row.append(name);
      row.append(...heads.map(([head, text]) => cell(head, ...text(plan))));
      return row;
    }),
  );
}

// The plot

function model() {
  const { sweep, target, assurance, found, sentence } = shown;
  const title = `${sweep.axis} against the number of training samples, with forecasts and the target. ${sentence}`;
  return { found, target, assurance, score: sweep.score, axis: sweep.axis, title };
}

function draw() {
  const width = Math.max(280, Math.round($("plot").clientWidth));
  const drawn = drawPlot(model(), width, ON_SCREEN);
  shown.valueAt = drawn.valueAt;
  $("plot").replaceChildren(drawn.svg);
}

/** Drag the line of the target; the container keeps the pointer, since the line is drawn anew at every step. */
function allowDragging(place) {
  const drag = (event) => {
    const value = shown.valueAt(event.clientY - place.getBoundingClientRect().top);
    setTarget(sweepOf().score ? sliderTarget(sliderPlace(value)) : Number(value.toPrecision(3)));
  };
  place.addEventListener("pointerdown", (event) => {
    if (event.target.classList.contains("grip")) place.setPointerCapture(event.pointerId);
  });
  place.addEventListener("pointermove", (event) => {
    if (place.hasPointerCapture(event.pointerId)) drag(event);
  });
}

// Copy and save

function csv() {
  const { sweep, target, assurance, found, pair } = shown;
  const { score } = sweep;
  const factors = pair ? twoFactors(...pair, target) : {};
  const head = ["sweep", "metric", "arch", "target", "assurance", "n", "n_low", "n_high", "probability", "at"];
  head.push("error", "error_low", "error_high", "ratio", "ratio_low", "ratio_high");
  if (score) head.push("score_target", "score", "score_low", "score_high");
  if (pair) head.push("structural", "approximation");
  if (sweep.cost) head.push(sweep.cost.column);
  const lines = found.map((plan) => {
    const { forecast, answer } = plan;
    const of = ratio(plan);
    const cells = [sweep.name, sweep.metric, forecast.name, target, assurance];
    cells.push(answer.n, answer.n_low, answer.n_high, answer.probability, answer.at);
    cells.push(answer.error, answer.error_low, answer.error_high);
    cells.push(...(plan === found[0] ? [1, 1, 1] : [of.ratio, of.low, of.high]));
    const scored = [target, answer.error, answer.error_high, answer.error_low];
    if (score) cells.push(...scored.map((error) => Number(general(valueOf(error, score), 15))));
    if (pair) cells.push(...(pair.includes(forecast) ? [factors.structural, factors.approximation] : [null, null]));
    if (sweep.cost) cells.push(answer.n === null || !forecast.cost ? null : forecast.costOf(answer.n));
    return csvLine(cells);
  });
  return [csvLine(head), ...lines, ""].join("\n");
}

async function copy() {
  const text = csv();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    $("copy").focus();
  }
  clearTimeout(speaking); // what is said last is heard
  $("live").textContent = "The table is copied as CSV.";
  $("done").textContent = "Copied.";
}

function save() {
  const text = new XMLSerializer().serializeToString(drawPlot(model(), 680, ON_PAPER).svg);
  const link = element("a", "");
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.download = `planner${shown.sweep.name === null ? "" : `-${shown.sweep.name.replace(/[^\w.-]+/g, "_")}`}.svg`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  clearTimeout(speaking); // what is said last is heard
  $("live").textContent = "The plot is saved as SVG.";
  $("done").textContent = "Saved.";
}

/** The same answers on the command line. */
function command() {
  const { sweep, value, assurance } = shown;
  const quoted = (text) => (/^[\w.+/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const words = ["koct", "budget", quoted(DATA.source.file), "--target", String(value)];
  const options = { sweep: sweep.name, metric: sweep.given, assurance, ...DATA.options };
  for (const [key, given] of Object.entries(options)) if (given !== null) words.push(`--${key}`, quoted(String(given)));
  return words.join(" ");
}

// Controls

function setTarget(value) {
  $("target").value = String(value);
  $("target-range").value = sliderPlace(value);
  update();
}

function chooseSweep(i) {
  state.sweep = i;
  const { score, quantity, archs } = sweepOf();
  const able = archs.every((arch) => arch.assurable);
  $("assured").disabled = !able;
  $("unassurable").hidden = able;
  if (!able) $("assured").checked = state.assured = false;
  $("target-name").textContent = score || quantity === "error" ? `Target ${quantity}` : `Target error (${quantity})`;
  setTarget(state.targets[i]);
}

function listen() {
  $("sweep").addEventListener("change", () => chooseSweep($("sweep").selectedIndex));
  $("target").addEventListener("input", () => {
    const value = typed($("target").value);
    if (!problemOf(value, sweepOf().score)) $("target-range").value = sliderPlace(value);
    update();
  });
  $("target-range").addEventListener("input", () => {
    $("target").value = String(sliderTarget(Number($("target-range").value)));
    update();
  });
  $("assured").addEventListener("change", () => {
    state.assured = $("assured").checked;
    update();
  });
  $("assurance").addEventListener("input", () => {
    $("assurance-range").value = clipped(typed($("assurance").value) || 0, 0.5, 0.99);
    update();
  });
  $("assurance-range").addEventListener("input", () => {
    $("assurance").value = $("assurance-range").value;
    update();
  });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("copy").addEventListener("click", copy);
  $("save").addEventListener("click", save);
  allowDragging($("plot"));
  new ResizeObserver(() => shown && draw()).observe($("plot"));
}

function start() {
  const { file, koct, commit } = DATA.source;
  const made = commit && commit !== "unknown" ? `, of commit ${commit.slice(0, 10)}` : "";
  const curves = `${grouped(DATA.pairing.length)} plausible curves for each network`;
  $("source").textContent = `From ${file}${made}, by koct ${koct}; ${curves}.`;
  $("sweep").replaceChildren(
    ...DATA.sweeps.map((sweep) => element("option", sweepText(sweep))),
  );
  $("sweep-field").hidden = DATA.sweeps.length === 1;
  $("sweep").selectedIndex = 0;
  $("assured").checked = false;
  $("assurance").value = $("assurance-range").value = String(state.assurance);
  if (typeof DecompressionStream === "undefined") {
    $("problem").textContent = "This browser is too old for the page; take one of 2023 or later";
    return;
  }
  listen();
  chooseSweep(0);
}

start();
