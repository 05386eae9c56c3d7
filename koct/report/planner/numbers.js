"use strict";

// log, exp and the normal quantile of koct/risk/portable.py: the same operations on the same constants in the same
// order, so the same bits. Math.log and Math.exp differ from browser to browser.

const DATA = JSON.parse(document.getElementById("data").textContent);
const { ln2: [LN2_HIGH, LN2_LOW, INVERSE_LN2], ...PORTABLE } = DATA.portable;
const SMALLEST_NORMAL = 2.2250738585072014e-308;
const TWO_TO_54 = 18014398509481984;
const bits = new DataView(new ArrayBuffer(8));

/** The constant comes first. */
function polynomial(coefficients, x) {
  let value = coefficients[coefficients.length - 1];
  for (let i = coefficients.length - 2; i >= 0; i--) value = value * x + coefficients[i];
  return value;
}

/** [m, k] with x = m · 2^k and ½ ≤ m < 1, for a positive x. */
function frexp(x) {
  let k = -1022;
  if (x < SMALLEST_NORMAL) {
    x *= TWO_TO_54;
    k -= 54;
  }
  bits.setFloat64(0, x);
  const high = bits.getUint32(0);
  bits.setUint32(0, (high & 0x000fffff) | 0x3fe00000);
  return [bits.getFloat64(0), k + (high >>> 20)];
}

function log(x) {
  let [m, k] = frexp(x);
  if (m < PORTABLE.sqrtHalf) {
    m = 2 * m;
    k -= 1;
  }
  const f = m - 1;
  const s = f / (2 + f);
  const half = 0.5 * f * f;
  const z = s * s;
  return k * LN2_HIGH - (half - (s * (half + z * polynomial(PORTABLE.log, z)) + k * LN2_LOW) - f);
}

function exp(x) {
  const k = Math.floor(x * INVERSE_LN2 + 0.5);
  const high = x - k * LN2_HIGH;
  const low = k * LN2_LOW;
  const r = high - low;
  const z = r * r;
  const c = r - z * polynomial(PORTABLE.exp, z);
  bits.setUint32(0, (k + 1023) << 20);
  bits.setUint32(4, 0);
  return (1 - (low - (r * c) / (2 - c) - high)) * bits.getFloat64(0);
}

function normalQuantile(p) {
  const [near, far] = PORTABLE.ends;
  const [nearShift, tailShift] = PORTABLE.shifts;
  const q = p - 0.5;
  if (Math.abs(q) <= near) {
    const x = nearShift - q * q;
    const [top, bottom] = PORTABLE.normal[0];
    return (q * polynomial(top, x)) / polynomial(bottom, x);
  }
  const r = Math.sqrt(-log(Math.min(p, 1 - p)));
  const x = r - (r > far ? far : tailShift);
  const [top, bottom] = PORTABLE.normal[r > far ? 2 : 1];
  const value = polynomial(top, x) / polynomial(bottom, x);
  return q < 0 ? -value : value;
}

/** NumPy's quantile with method "inverted_cdf", of a sorted array. */
function quantile(sorted, share) {
  const place = sorted.length * share - 1;
  const before = Math.floor(place);
  return sorted[Math.max(0, place > before ? before + 1 : before)];
}

function clipped(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

// What koct/report/planner/packed.py wrote

function bytes(letters) {
  return Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
}

function floats(letters) {
  const view = new DataView(bytes(letters).buffer);
  return Float64Array.from({ length: view.byteLength / 8 }, (_, i) => view.getFloat64(8 * i, true));
}

/** An array for each of n points, with the values of all curves there. */
async function falling(letters, n) {
  const stream = new Blob([bytes(letters)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = planes.length / 4;
  const count = size / n;
  const byte = (at, i) => planes[at + i * size] << (8 * i);
  const points = [];
  for (let k = 0; k < n; k++) {
    const values = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      const at = k * count + i;
      const steps = byte(at, 0) | byte(at, 1) | byte(at, 2) | byte(at, 3);
      values[i] = k ? points[k - 1][i] - steps * DATA.step : steps * DATA.step;
    }
    points.push(values);
  }
  return points;
}
