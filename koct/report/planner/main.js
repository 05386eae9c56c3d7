// The controls, and what they choose of the answers that the page carries: nothing is computed here.
// Names come from files of others: they are only ever set as text.

const $ = (id) => document.getElementById(id);
const SPOKEN_AFTER = 600; // milliseconds without a change, so that a screen reader is not interrupted at every step
const LISTED = 3; // networks that the summary names
const ENTRIES = ["arch", "n", "nLow", "nHigh", "probability", "odds", "error", "low", "high"]; // of koct.report.planner
ENTRIES.push("ratio", "ratioLow", "ratioHigh", "reason", "chances");
const DATA = JSON.parse($("data").textContent);
const chosen = DATA.sweeps.map(({ first }) => first); // the target of each sweep, by its place
let shown = null; // what is on the page
let speaking = 0;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const grouped = (n) => n.toLocaleString("en-US");
const plain = (text) => text.replaceAll(",", "");

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
    const [low, high] = [row.nLow, row.nHigh].map((n) => (n === null ? "" : grouped(n)));
    const samples = row.n === null ? "out of reach" : grouped(row.n);
    return { ...row, arch: sweep.archs[row.arch], samples, interval: range(low, high), cost: costs[i] };
  });
  return { sweep, place, question, target, value: Number(plain(target)), rows };
}

function sentence({ sweep, question, target, rows }) {
  const each = rows.slice(0, LISTED).map(({ arch, n, samples, interval, odds }) => {
    if (n === null) return `${arch.label} probably does not reach it (probability ${odds})`;
    const doubt = odds.startsWith("above") ? "" : `; probability ${odds}`;
    return `${arch.label} needs about ${samples} ${sweep.counts} (${interval}${doubt})`;
  });
  return `For ${question.goal.replace("{target}", target)}: ${each.join("; ")}.`;
}

function update() {
  shown = choose();
  const { sweep, place, question, rows } = shown;
  $("target").selectedIndex = place;
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
  $("command").textContent = sweep.command.replace("{target}", plain(shown.target)) + assured;
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
    [sweep.predicted, predicted],
    ["Probability", ({ odds }) => [odds]],
    ...(sweep.cost ? [["Cost of a run", ({ cost }) => [cost]]] : []),
  ];
}

function compared({ ratio, ratioLow, ratioHigh }) {
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
  shown.y = drawn.y;
  $("plot").replaceChildren(drawn.svg);
}

function csv() {
  const { sweep, question, target, rows } = shown;
  const unit = sweep.unit;
  const head = ["sweep", "metric", "arch", "target", "assurance", "n", "n_low", "n_high", "probability"];
  head.push(unit, `${unit}_low`, `${unit}_high`, "ratio", "ratio_low", "ratio_high");
  if (sweep.cost) head.push(sweep.cost.column);
  const lines = rows.map((row) => {
    const numbers = [target, question.assurance, row.n, row.nLow, row.nHigh, row.probability, row.error, row.low];
    numbers.push(row.high, row.ratio, row.ratioLow, row.ratioHigh);
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

/** Drag the line of the target; the container keeps the pointer, since the line is drawn anew at every step. */
function allowDragging(plot) {
  plot.addEventListener("pointerdown", (event) => {
    if (event.target.classList.contains("grip")) plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", (event) => {
    if (!plot.hasPointerCapture(event.pointerId)) return;
    const height = event.clientY - plot.getBoundingClientRect().top;
    const away = shown.sweep.targets.map((target) => Math.abs(shown.y(Number(plain(target))) - height));
    setTarget(away.indexOf(Math.min(...away)));
  });
}

function chooseSweep() {
  const { control, targets, questions } = DATA.sweeps[$("sweep").selectedIndex];
  const kept = Math.min(Math.max($("question").selectedIndex, 0), questions.length - 1);
  $("target-name").textContent = control;
  $("target").replaceChildren(...targets.map((target) => element("option", target)));
  $("target-range").max = targets.length - 1;
  $("question").replaceChildren(...questions.map(({ choice }) => element("option", choice)));
  $("question").selectedIndex = kept;
  $("unassurable").hidden = questions.length > 1;
  update();
}

function start() {
  $("source").textContent = DATA.source;
  $("sweep").replaceChildren(...DATA.sweeps.map(({ title }) => element("option", title ?? "")));
  $("sweep-field").hidden = DATA.sweeps.length === 1;
  $("sweep").selectedIndex = 0;
  $("sweep").addEventListener("change", chooseSweep);
  $("target").addEventListener("change", () => setTarget($("target").selectedIndex));
  $("target-range").addEventListener("input", () => setTarget(Number($("target-range").value)));
  $("question").addEventListener("change", update);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("copy").addEventListener("click", copy);
  allowDragging($("plot"));
  chooseSweep();
  new ResizeObserver(draw).observe($("plot"));
}

start();
