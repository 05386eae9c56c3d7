// The controls, and what they choose of the answers that the page carries.
// Names come from files of others: they are only ever set as text.

const $ = (id) => document.getElementById(id);
const SPOKEN_AFTER = 600; // milliseconds without a change, so that a screen reader is not interrupted at every step
const UNTOLD = "?"; // of a ratio
const LISTED = 3; // networks that the summary names
const ENTRIES = ["arch", "n", "nLow", "nHigh", "probability", "odds", "error", "low", "high"]; // of planner_page.py
ENTRIES.push("ratio", "ratioLow", "ratioHigh", "reason", "chances");
const DATA = JSON.parse($("data").textContent);
const chosen = DATA.sweeps.map(({ first }) => first); // the target of each sweep, by its place
let shown = null; // what is on the page
let speaking = 0;
let dragged = false; // the line of the target, so that no click follows

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const grouped = (n) => n.toLocaleString("en-US");
const plain = (text) => text.replaceAll(",", "");

const beyond = (n, { far }) => (n > far ? `more than ${grouped(far)}` : grouped(n));

/** An interval of N; beyond what the pilot can tell, only that. */
function between({ nLow, nHigh, arch }) {
  if (nLow === null) return "–";
  if (nLow > arch.far) return beyond(nLow, arch);
  return nHigh === null ? `from ${grouped(nLow)}` : `${grouped(nLow)} to ${beyond(nHigh, arch)}`;
}

function range(low, high) {
  if (low && high) return `${low} to ${high}`;
  return low ? `from ${low}` : high ? `up to ${high}` : "–";
}

/** Everything that the page shows for its controls; rows come in the order of their samples. */
function choose() {
  const sweep = DATA.sweeps[$("sweep").selectedIndex];
  const place = chosen[$("sweep").selectedIndex];
  const question = sweep.questions[$("question").selectedIndex];
  const target = sweep.targets[place];
  const costs = sweep.cost ? sweep.cost.texts[$("question").selectedIndex][place] : [];
  const rows = question.answers[place].map((entries, i) => {
    const row = Object.fromEntries(ENTRIES.map((key, k) => [key, entries[k]]));
    row.arch = sweep.archs[row.arch];
    const samples = row.n === null ? "out of reach" : beyond(row.n, row.arch);
    return { ...row, samples, interval: between(row), cost: row.n > row.arch.far ? "–" : costs[i] };
  });
  return { sweep, place, question, target, value: Number(plain(target)), rows };
}

function sentence({ sweep, question, target, rows }) {
  const each = rows.slice(0, LISTED).map(({ arch, n, samples, interval, odds }) => {
    if (n === null) return `${arch.label} probably does not reach it (probability ${odds})`;
    const doubt = odds.startsWith("above") ? "" : `; probability ${odds}`;
    const about = n > arch.far ? "" : "about ";
    return `${arch.label} needs ${about}${samples} ${sweep.counts} (${interval}${doubt})`;
  });
  const more = rows.length > LISTED ? `; the table has ${rows.length - LISTED} more` : "";
  return `For ${question.goal.replace("{target}", target)}: ${each.join("; ")}${more}.`;
}

function update() {
  shown = choose();
  const { sweep, place, question, rows } = shown;
  $("target").value = shown.target;
  $("target-note").textContent = "";
  $("target-range").value = place;
  $("target-range").setAttribute("aria-valuetext", shown.target);
  $("answers-title").textContent = `Samples needed${sweep.title === null ? "" : `: ${sweep.title}`}`;
  $("summary").textContent = sentence(shown);
  showTable();
  $("factors").textContent = sweep.factors[place] || "";
  const label = ({ arch }) => (sweep.archs.length > 1 ? `${arch.label}: ` : "");
  const remarks = rows.filter(({ reason }) => sweep.reasons[reason]);
  $("remarks").replaceChildren(
    ...remarks.map((row) => element("li", `${label(row)}${sweep.reasons[row.reason]}.`)),
  );
  $("ratio").hidden = rows.length === 1;
  $("cost").textContent = sweep.cost ? `The cost is a power law of N, fitted to the column ${sweep.cost.column}.` : "";
  const assured = question.assurance === null ? "" : ` --assurance ${question.assurance}`;
  const command = sweep.command.replace("{target}", plain(shown.target)) + assured;
  $("command").replaceChildren(...command.split(" ").flatMap((word) => [element("span", word), " "]));
  draw();
  clearTimeout(speaking);
  speaking = setTimeout(() => {
    $("live").textContent = sentence(shown);
  }, SPOKEN_AFTER);
}

/** The head of every column, and a function from a row to the texts of its cell: a value and a detail. */
function columns({ sweep, rows }) {
  return [
    [`${sweep.counts[0].toUpperCase()}${sweep.counts.slice(1)} N`, ({ samples }) => [samples]],
    [DATA.interval, ({ interval }) => [interval]],
    ...(rows.length > 1 ? [["Ratio to the first", compared]] : []),
    [`Predicted ${sweep.noun} at N`, predicted],
    ["Probability", ({ odds }) => [odds]],
    ...(sweep.cost ? [["Cost of a run", ({ cost }) => [cost]]] : []),
  ];
}

function compared({ ratio, ratioLow, ratioHigh }) {
  if (ratio === UNTOLD) return ["the pilot cannot tell"];
  if (!ratio) return [ratioLow ? `at least ${ratioLow}` : "–"];
  return [ratio, ratioLow || ratioHigh ? range(ratioLow, ratioHigh) : ""];
}

function predicted({ arch, n, error, low, high }) {
  const at = n === null ? `, at N = ${grouped(arch.pilot[0].at(-1))}` : "";
  return [error, `${range(low, high)}${at}`];
}

function cell(head, value, detail) {
  const made = element("td", "", { role: "cell", "data-head": head });
  const text = element("span", value, { class: "value" });
  if (detail) text.append(" ", element("span", detail, { class: "detail" }));
  made.append(text);
  return made;
}

function showTable() {
  const heads = columns(shown);
  const header = element("tr", "", { role: "row" });
  const titles = ["Network", ...heads.map(([head]) => head)];
  header.append(...titles.map((head) => element("th", head, { scope: "col", role: "columnheader" })));
  $("head").replaceChildren(header);
  $("body").replaceChildren(
    ...shown.rows.map((row) => {
      const { name, label, law, colour, marker: kind } = row.arch;
      const made = element("tr", "", { role: "row", "data-arch": name });
      const title = element("th", "", { scope: "row", role: "rowheader", class: "arch", style: `--base: ${colour}` });
      const key = add(null, "svg", { viewBox: "0 0 18 12", "aria-hidden": "true", class: "key" });
      marker(key, kind, 9, 6, 4.2, { fill: "var(--arch)" });
      title.append(key, element("span", label, { class: "name" }), element("span", law, { class: "law" }));
      made.append(title, ...heads.map(([head, texts]) => cell(head, ...texts(row))));
      return made;
    }),
  );
}

function draw() {
  const { sweep } = shown;
  const title = `${sweep.axis} against the number of training ${sweep.counts}, with forecasts and the target. `;
  const width = Math.max(280, Math.round($("plot").clientWidth));
  const drawn = drawPlot({ ...shown, title: title + sentence(shown) }, width);
  Object.assign(shown, { x: drawn.x, y: drawn.y });
  $("plot").replaceChildren(drawn.svg);
  readOut();
}

/** Between values at some N, in the logarithm of N; in that of the value too, unless it is a score or a chance. */
function interpolated(N, values, n, logarithmic) {
  const i = clipped(N.findLastIndex((each) => each <= n), 0, N.length - 2);
  const part = clipped(Math.log(n / N[i]) / Math.log(N[i + 1] / N[i]), 0, 1);
  const [a, b] = [values[i], values[i + 1]];
  if (a === null || b === null) return null;
  return logarithmic ? a ** (1 - part) * b ** part : a + part * (b - a);
}

/** Three digits, with an exponent where a number would be long. */
function short(value) {
  if (value === null) return "–";
  const size = Math.abs(value);
  const plainly = size === 0 || (size >= 1e-4 && size < 1e6);
  return plainly ? value.toLocaleString("en-US", { maximumSignificantDigits: 3 }) : value.toExponential(2);
}

/** What is predicted at the N of its box, and the chance that this N suffices. */
function readOut() {
  const n = Number($("at").value);
  const whole = Number.isInteger(n) && n >= 1;
  for (const side of ["x1", "x2"]) {
    $("plot").querySelector(".at").setAttribute(side, whole ? clipped(shown.x(n), -9, 1e4) : -9);
  }
  const counted = `N counts training ${shown.sweep.counts}: a whole number, 1 or more.`;
  const lines = whole ? shown.rows.map((row) => readAt(n, row)) : [element("li", counted)];
  $("readout").replaceChildren(...lines);
  remember();
}

/** What a network does with N; beyond what its runs tell, only that. */
function readAt(n, { arch, chances }) {
  const { sweep, target } = shown;
  const sizes = arch.pilot[0];
  const [first, last] = [sizes[0], sizes.at(-1)];
  const line = (text) => element("li", `${arch.label}: ${text}`, { "data-arch": arch.name });
  if (n < first) return line(`not known; the smallest N of its runs is ${grouped(first)}`);
  if (n > arch.far) {
    return line(`nobody can tell; ${grouped(n)} is ${grouped(Math.round(n / last))} times the largest N of its runs`);
  }
  const [low, middle, high] = arch.band.map((values) => short(interpolated(arch.N, values, n, !sweep.score)));
  const ends = sweep.score ? `${high} to ${low}` : `${low} to ${high}`;
  const chance = Math.round(interpolated(arch.octaves, chances, n, false));
  const odds = chance < 1 ? "below 1 %" : chance > 99 ? "above 99 %" : `${chance} %`;
  const far = n > last ? `; extrapolated to ${short(n / last)} times the largest N of its runs` : "";
  return line(`${sweep.noun} ${middle} (${ends}); chance of ${target}: ${odds}${far}`);
}

function csv() {
  const { sweep, question, target, rows } = shown;
  const unit = sweep.unit;
  const head = ["sweep", "metric", "arch", "target", "assurance", "n", "n_low", "n_high", "probability"];
  head.push(unit, `${unit}_low`, `${unit}_high`, "ratio", "ratio_low", "ratio_high");
  if (sweep.cost) head.push(sweep.cost.column);
  const lines = rows.map((row) => {
    const numbers = [target, question.assurance, row.n, row.nLow, row.nHigh, row.probability, row.error, row.low];
    numbers.push(row.high, row.ratio.replace(UNTOLD, ""), row.ratioLow, row.ratioHigh);
    if (sweep.cost) numbers.push(row.cost.replace(/[^\d.e+-]/g, ""));
    return [sweep.name, sweep.metric, row.arch.name, ...numbers.map((number) => plain(String(number ?? "")))];
  });
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return [head, ...lines].map((line) => `${line.map((text) => quoted(text ?? "")).join(",")}\n`).join("");
}

async function copy() {
  const area = element("textarea", csv());
  try {
    await navigator.clipboard.writeText(area.value);
  } catch {
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

// Controls

function setTarget(place) {
  chosen[$("sweep").selectedIndex] = place;
  update();
}

/** The place of the target nearest to a value, as its distance is measured. */
function nearest(distance) {
  const away = shown.sweep.targets.map((target) => distance(Number(plain(target))));
  return away.indexOf(Math.min(...away));
}

/** The page has answers for some targets: of one that is typed, the nearest is shown, and that is said. */
function typeTarget(text) {
  const { score, targets } = shown.sweep;
  const value = text.trim() === "" ? NaN : Number(plain(text));
  const [low, high] = [targets[0], targets.at(-1)];
  if (!(value >= Number(plain(low)) && value <= Number(plain(high)))) {
    $("target").value = shown.target;
    $("target-note").textContent = `Targets of this page are numbers from ${low} to ${high}.`;
    return;
  }
  setTarget(nearest((target) => (score ? Math.abs(target - value) : Math.abs(Math.log(target / value)))));
  if (shown.value === value) return;
  $("target-note").textContent = `The nearest to ${text.trim()} that this page answers; koct budget answers for any.`;
}

/** Drag the line of the target, or click at an N; the container keeps the pointer, since the line is drawn anew at every step. */
function watchPointer(plot) {
  plot.addEventListener("pointerdown", (event) => {
    dragged = event.target.classList.contains("grip");
    if (!dragged) return;
    event.preventDefault();
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", (event) => {
    if (!plot.hasPointerCapture(event.pointerId)) return;
    const height = event.clientY - plot.getBoundingClientRect().top;
    setTarget(nearest((target) => Math.abs(shown.y(target) - height)));
  });
  plot.addEventListener("click", (event) => {
    const n = Math.round(shown.x.inverse(event.clientX - plot.getBoundingClientRect().left));
    if (dragged || n < shown.x.inverse(shown.x.start) || n > shown.x.inverse(shown.x.end)) return;
    $("at").value = Math.max(1, n);
    readOut();
  });
}

// The address of the page keeps what was chosen

function remember() {
  const { sweep, target, question } = shown;
  const state = { sweep: sweep.name ?? "", target: plain(target), assurance: question.assurance ?? "", N: $("at").value };
  try {
    history.replaceState(null, "", `#${new URLSearchParams(state)}`);
  } catch {
    // a page inside of another has no address of its own
  }
}

function recall(address) {
  const state = new URLSearchParams(address.slice(1));
  const sweep = DATA.sweeps.findIndex(({ name }) => (name ?? "") === state.get("sweep"));
  if (sweep < 0) return;
  $("sweep").selectedIndex = sweep;
  chooseSweep();
  const { questions, targets } = DATA.sweeps[sweep];
  const asked = questions.findIndex(({ assurance }) => `${assurance ?? ""}` === state.get("assurance"));
  $("question").selectedIndex = Math.max(asked, 0);
  if (state.get("N")) $("at").value = state.get("N");
  const place = targets.findIndex((target) => plain(target) === state.get("target"));
  setTarget(place < 0 ? chosen[sweep] : place);
}

function chooseSweep() {
  const { archs, control, laws, targets, questions } = DATA.sweeps[$("sweep").selectedIndex];
  const kept = Math.min(Math.max($("question").selectedIndex, 0), questions.length - 1);
  $("target-name").textContent = control;
  $("targets").replaceChildren(...targets.map((target) => element("option", "", { value: target })));
  $("target-range").max = targets.length - 1;
  $("question").replaceChildren(...questions.map(({ choice }) => element("option", choice)));
  $("question").selectedIndex = kept;
  $("laws").textContent = laws && `${laws}.`;
  $("at").value = Math.max(...archs.map(({ pilot }) => pilot[0].at(-1)));
  $("unassurable").hidden = questions.length > 1;
  update();
}

function start() {
  $("source").textContent = DATA.source;
  $("sweep").replaceChildren(...DATA.sweeps.map(({ title }) => element("option", title ?? "")));
  $("sweep-field").hidden = DATA.sweeps.length === 1;
  $("sweep").selectedIndex = 0;
  $("sweep").addEventListener("change", chooseSweep);
  $("target").addEventListener("change", () => typeTarget($("target").value));
  $("target").addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    setTarget(clipped(shown.place + step, 0, shown.sweep.targets.length - 1));
  });
  $("target-range").addEventListener("input", () => setTarget(Number($("target-range").value)));
  $("question").addEventListener("change", update);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("copy").addEventListener("click", copy);
  $("at").addEventListener("input", readOut);
  watchPointer($("plot"));
  const address = location.hash; // which the first choice overwrites
  chooseSweep();
  recall(address);
  addEventListener("hashchange", () => recall(location.hash));
  new ResizeObserver(draw).observe($("plot"));
}

start();
