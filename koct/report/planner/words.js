"use strict";

// Numbers and answers in words, as koct/report/words.py and koct/report/budget.py have them.

const LISTED = 3; // networks that a sentence names one by one
const SPACE = "\u00a0"; // where no line may end

/** Python's rounding: a half goes to the even neighbour. */
function rounded(value) {
  const below = Math.floor(value);
  if (value - below === 0.5) return below % 2 ? below + 1 : below;
  return Math.round(value);
}

/** A whole number with commas. */
function grouped(n) {
  return BigInt(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Python's format(value, ".3g") for three digits. */
function general(value, digits) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return String(value);
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  const short = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= digits) {
    return `${short(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  return short(value.toFixed(Math.max(0, digits - 1 - exponent)));
}

/** Three digits, with an exponent only where there is a need. */
function number(value) {
  const short = Number(general(value, 3));
  return Math.abs(short) >= 1000 && Math.abs(short) < 1e15 ? grouped(short) : general(value, 3);
}

/** Never quite 0 or 1: a probability estimated from a thousand curves. */
function percent(probability) {
  const value = rounded(100 * probability);
  if (value === 0) return `below 1${SPACE}%`;
  return value === 100 ? `above 99${SPACE}%` : `${value}${SPACE}%`;
}

function interval(answer) {
  if (answer.n_low === null) return "–";
  if (answer.n_high === null) return `from ${grouped(answer.n_low)}`;
  return `${grouped(answer.n_low)} to ${grouped(answer.n_high)}`;
}

function needed(answer) {
  return answer.n === null ? ["out of reach", `probability ${percent(answer.probability)}`] : [grouped(answer.n), ""];
}

/** How many decimals of a score tell two digits of its error. */
function decimals(error, score) {
  if (score.decibel) return 1;
  const distance = error * score.scale;
  return distance > 0 && distance < Infinity ? clipped(1 - Math.floor(Math.log10(distance)), 0, 15) : 2;
}

/** A predicted error, or score, and its interval: at the answer's N, or at the pilot's largest if it has none. */
function predicted(answer, score) {
  const where = answer.n === null ? `, at N = ${grouped(answer.at)}` : "";
  let shown = [answer.error, answer.error_low, answer.error_high].map(number);
  if (score) {
    const digits = decimals(answer.error, score);
    const errors = [answer.error, answer.error_high, answer.error_low]; // a high error is a low score
    shown = errors.map((error) => valueOf(error, score).toFixed(digits));
  }
  return [shown[0], `${shown[1]} to ${shown[2]}${where}`];
}

/** The ratio to the network with the fewest samples, and its interval. */
function times({ ratio, low, high }, other) {
  if (ratio === null) return ["–", ""];
  if (other.n === null || ratio === Infinity) {
    return low >= 1 && low < Infinity ? [`at least ${number(low)}`, ""] : ["not told", "by this pilot"];
  }
  const [least, value, most] = [low, ratio, high].map(number);
  if (low > 0 && high < Infinity) return [value, least === value && most === value ? "" : `${least} to ${most}`];
  if (low > 0) return [value, low >= 1 ? `at least ${least}` : "no upper end"];
  return [value, high < Infinity ? `at most ${most}` : "no ends"];
}

/** What is to be reached, in words. */
function goal(value, assurance, score) {
  const shown = general(value, 15);
  const share = assurance === null ? "" : ` in ${general(100 * assurance, 6)} % of runs`;
  if (!score) return assurance === null ? `a mean error of ${shown}` : `an error of ${shown}${share}`;
  if (assurance !== null) return `${score.name} ${shown}${share}`;
  if (score.decibel) return `a ${score.name} of ${shown} (that of the mean squared error)`;
  return `a mean ${score.name} of ${shown}`;
}

/** One network in half a sentence. */
function told(label, answer) {
  const odds = percent(answer.probability);
  if (answer.probability >= DATA.even[0] && answer.probability <= DATA.even[1]) {
    const about = answer.n === null ? `${grouped(answer.n_low)} samples or more` : `about ${grouped(answer.n)} samples`;
    return `${label} may reach it with ${about}, or never (probability ${odds})`;
  }
  if (answer.n === null) return `${label} probably does not reach it (probability ${odds})`;
  const open = answer.n_high === null;
  const same = answer.n_low === answer.n_high;
  const ends = open ? ` (at least ${grouped(answer.n_low)})` : same ? "" : ` (${interval(answer)})`;
  return `${label} needs about ${grouped(answer.n)} samples${ends}`;
}

function summary(found, value, assurance, score) {
  const start = `For ${goal(value, assurance, score)}: `;
  if (found.length <= LISTED) {
    return `${start}${found.map(({ forecast, answer }) => told(forecast.label, answer)).join("; ")}.`;
  }
  const missing = found.filter(({ answer }) => answer.n === null).length;
  const verb = missing === 1 ? "does" : "do";
  const rest = missing ? `; ${missing} of ${found.length} networks probably ${verb} not get there` : "";
  return `${start}${told(found[0].forecast.label, found[0].answer)}, the fewest${rest}.`;
}

function factorsInWords(pair, target) {
  const [known, dense] = pair;
  const factors = twoFactors(known, dense, target);
  if (factors.why) return `The paper's two factors are undefined here: ${factors.why}.`;
  const [structural, approximation, product] = [factors.structural, factors.approximation, factors.product].map(number);
  return (
    `By the paper's rule for the mean error, the ratio of N / log N (${dense.name} to ${known.name}): structural ` +
    `${structural} × approximation ${approximation} = ${product}.`
  );
}

function costInWords(value, unit) {
  const shown = value >= 1000 && value < 1e15 ? grouped(rounded(value)) : number(value);
  return unit ? `${shown} ${unit}` : shown;
}

/** What is not there or not finite is empty; whole numbers have all their digits. */
function csvLine(cells) {
  const cell = (value) => {
    if (typeof value === "string") return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
    if (Number.isInteger(value)) return BigInt(value).toString();
    return Number.isFinite(value) ? String(value) : "";
  };
  return cells.map(cell).join(",");
}
