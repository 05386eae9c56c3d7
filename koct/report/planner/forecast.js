"use strict";

// What koct.risk.budget.Forecast and koct.report.budget compute from drawn curves. Nothing is fitted here.

class Forecast {
  /** `about` is what the page carries of one network; `read` has unpacked it. */
  constructor(about, N, reached, spreads) {
    Object.assign(this, about);
    this.N = N;
    this.logN = N.map(log);
    this.reached = reached; // an array for each N, with the log error that each curve has reached there
    this.spreads = spreads;
    this.largest = about.pilot[0][about.pilot[0].length - 1];
    this.kept = {};
  }

  static async read(about) {
    const N = floats(about.N);
    const [reached, [spreads]] = await Promise.all([falling(about.reached, N.length), falling(about.spreads, 1)]);
    return new Forecast(about, N, reached, spreads);
  }

  /** The real N that every curve needs, Infinity where it never gets there. Without assurance, for the mean error. */
  samples(target, assurance = null) {
    if (this.kept.target === target && this.kept.assurance === assurance) return this.kept.samples;
    const aim = log(target);
    const z = assurance === null ? 0 : normalQuantile(assurance);
    const samples = this.spreads.map((spread, i) => {
      const margin = assurance === null ? 0 : z * spread - (spread * spread) / 2;
      return this.reach(i, aim - margin);
    });
    this.kept = { target, assurance, samples };
    return samples;
  }

  /** The N at which curve i has reached a log error; curves never rise. */
  reach(i, aim) {
    let [above, k] = [-1, this.N.length];
    while (k - above > 1) {
      const middle = (above + k) >> 1;
      if (this.reached[middle][i] <= aim) k = middle;
      else above = middle;
    }
    if (k === this.N.length) return Infinity;
    if (k === 0) return this.N[0];
    const before = this.reached[k - 1][i];
    const part = (before - aim) / (before - this.reached[k][i]);
    return part === 1 ? this.N[k] : exp(this.logN[k - 1] * (1 - part) + this.logN[k] * part);
  }

  /** The errors that all curves have reached by n. */
  errors(n) {
    const last = this.N.length - 1;
    const logn = log(clipped(n, this.N[0], this.N[last]));
    let left = 0;
    while (left < last - 1 && this.logN[left + 1] <= logn) left++;
    const part = (logn - this.logN[left]) / (this.logN[left + 1] - this.logN[left]);
    const [low, high] = [this.centre - DATA.maxLogRatio, this.centre + DATA.maxLogRatio];
    return this.reached[left].map((value, i) => {
      const error = exp(clipped((1 - part) * value + part * this.reached[left + 1][i], low, high));
      return this.rate ? Math.min(error, 1) : error;
    });
  }

  /** The answer, with the keys of `koct budget --json`. */
  required(target, assurance = null) {
    const samples = this.samples(target, assurance);
    const sorted = samples.slice().sort();
    const [nLow, n, nHigh] = DATA.nEnds.map((share) => whole(quantile(sorted, share)));
    const at = n === null ? this.largest : n;
    const errors = this.errors(at).sort();
    const [errorLow, error, errorHigh] = DATA.ends.map((share) => quantile(errors, share));
    return {
      arch: this.name,
      target,
      n,
      n_low: nLow,
      n_high: nHigh,
      probability: samples.filter(Number.isFinite).length / samples.length,
      at,
      error,
      error_low: errorLow,
      error_high: errorHigh,
      extrapolation: n === null ? null : n / this.largest,
      reason: [...this.remarks, ...this.remarksOn(n, nHigh)].join("; "),
    };
  }

  remarksOn(n, nHigh) {
    if (n !== null && nHigh !== null && nHigh <= this.N[0]) return ["already reached at the smallest N of the pilot"];
    if (n !== null && n > DATA.extrapolation * this.largest) {
      return [`${grouped(rounded(n / this.largest))} times the largest N of the pilot: an extrapolation`];
    }
    return [];
  }

  median(target, assurance) {
    return quantile(this.samples(target, assurance).slice().sort(), 0.5);
  }

  /** What a run with n samples costs; not part of `koct budget`, and so by Math. */
  costOf(n) {
    return this.cost[0] * n ** this.cost[1];
  }
}

function whole(n) {
  return Number.isFinite(n) ? Math.ceil(n - 1e-9) : null;
}

/** Answers of all networks, that with the fewest samples first. */
function plans(forecasts, target, assurance) {
  const found = forecasts.map((forecast) => ({ forecast, answer: forecast.required(target, assurance) }));
  const effort = ({ answer }) => (answer.n === null ? Infinity : answer.n);
  return found.sort((a, b) =>
    effort(a) === effort(b) ? b.answer.probability - a.answer.probability : effort(a) - effort(b),
  );
}

/** {ratio, low, high} of the samples of `other` over those of `first`; ratio is null if `first` does not get there. */
function ratios(first, other, target, assurance) {
  const bottom = first.samples(target, assurance);
  const top = other.samples(target, assurance);
  const [below, above] = [first.median(target, assurance), other.median(target, assurance)];
  if (!Number.isFinite(below)) return { ratio: null, low: Infinity, high: Infinity };
  const ratio = above / below;
  const each = new Float64Array(bottom.length);
  let count = 0;
  for (let i = 0; i < bottom.length; i++) {
    const paired = top[DATA.pairing[i]]; // the random numbers of both are the same ones
    if (Number.isFinite(paired) || Number.isFinite(bottom[i])) each[count++] = paired / bottom[i];
  }
  const sorted = each.subarray(0, count).sort();
  const [low, , high] = DATA.ends.map((share) => quantile(sorted, share));
  return { ratio, low: Math.min(low, ratio), high: Math.max(high, ratio) };
}

/** The paper's two factors of a dense network relative to an operator-aware one, or {why: they do not exist}. */
function twoFactors(known, dense, target) {
  for (const { name, floor } of [known, dense]) {
    if (!(target > floor)) {
      const why = `target = ${general(target, 6)} is not above the ${name} network's floor ${general(floor, 6)}`;
      return { why: `${why}; choose a larger target` };
    }
  }
  if (known.sigma <= 0) {
    const why = `sigma = ${general(known.sigma, 6)} of the ${known.name} network must be above 0`;
    return { why: `${why} for the structural factor; use a pilot whose error decreases with N` };
  }
  const structural = dense.sigma / known.sigma;
  const approximation = (target - known.floor) / (target - dense.floor);
  return { structural, approximation, product: structural * approximation };
}

/** The networks that the two factors are about, if a sweep has both. */
function paperPair(forecasts) {
  const found = DATA.pair.map((name) => forecasts.find((forecast) => forecast.name.toLowerCase() === name));
  return found.every(Boolean) ? found : null;
}

// Scores, where higher is better, as errors and back

function errorOf(value, score) {
  if (!score) return value;
  if (score.decibel) return exp(clipped(-value / score.decibel, -score.mostLog, score.mostLog));
  return (score.best - value) / score.scale;
}

function valueOf(error, score) {
  if (!score) return error;
  if (score.decibel) return error > 0 ? -score.decibel * log(error) : Infinity;
  const value = score.best - score.scale * error;
  return score.lowest === null ? value : Math.max(value, score.lowest);
}

/** Why a value cannot be a target; empty if it can. */
function problemOf(value, score) {
  const name = score ? score.name : "error";
  if (!Number.isFinite(value)) return `The target is not a number; write it like 0.05`;
  if (!score && value <= 0) return `The target must be above 0; choose a positive error`;
  if (score && score.best !== null && value >= score.best) {
    return `The target must be below ${general(score.best, 6)}, the best ${name}, which no N reaches`;
  }
  if (score && score.lowest !== null && value < score.lowest) {
    return `The target is below ${general(score.lowest, 6)}, and no ${name} is; choose a higher one`;
  }
  const error = errorOf(value, score);
  const [least, most] = DATA.errors;
  return error >= least && error <= most ? "" : `The target is too small or too large to compute with`;
}
