// The bit panel: what a bit pattern means (first half, no DOM, exported for tests), and the panel itself (second half).
//
// A format arrives from Python as `spec`: {kind, label, bits, fields: [[name, width], ...], ...numbers of its kind}.
// Kinds: float, fixed, integer are decoded by arithmetic; posit, log, table look the value up in `table`, a
// Float64Array from Python. Patterns go up to 32 bits, so powers of two instead of signed 32-bit bit operations.

const MINUS = "\u2212";

// ---- meaning ---------------------------------------------------------------------------------------------------------

const bitOf = (code, k) => Math.floor(code / 2 ** k) % 2;

/** The number in each field: {sign: 0, exponent: 7, mantissa: 4}. */
export function fieldsOf(spec, code) {
  const numbers = {};
  let rest = code;
  for (const [name, width] of [...spec.fields].reverse()) {
    numbers[name] = rest % 2 ** width;
    rest = Math.floor(rest / 2 ** width);
  }
  return numbers;
}

/** Sign, exponent and significand of a float's code; `special` is Infinity or NaN where the code is no number. */
function floatParts(spec, code) {
  const half = 2 ** (spec.bits - 1);
  const sign = code >= half ? 1 : 0;
  const magnitude = code - sign * half;
  const steps = 2 ** spec.mantissa_bits;
  const field = Math.floor(magnitude / steps);
  const fraction = (spec.radix - 1) * (magnitude % steps) / steps;
  const lowest = field === 0 && spec.specials !== "dlfloat"; // dlfloat's field 0 is a binade like the others
  let significand = 1 + fraction;
  if (lowest) significand = spec.subnormals ? fraction / (spec.radix - 1) : 0;
  if (magnitude === 0) significand = 0;
  const exponent = lowest && spec.subnormals ? 1 : field;
  return { sign, exponent, significand, lowest, special: specialOf(spec, code, magnitude, half, steps) };
}

function specialOf(spec, code, magnitude, half, steps) {
  const last = half - 1; // the code of all ones after the sign
  const minusZeroIsNaN = spec.specials === "fnuz" || spec.specials === "p3109";
  if (minusZeroIsNaN && code === half) return NaN;
  if (spec.specials === "ieee" && magnitude > last - steps) return magnitude === last - steps + 1 ? Infinity : NaN;
  if (magnitude !== last) return null;
  if (spec.specials === "fn") return NaN;
  return spec.specials === "p3109" || spec.specials === "dlfloat" ? Infinity : null;
}

/** The integer that a fixed-point or integer code stands for (two's complement where there is a sign). */
function integerOf(spec, code) {
  return spec.signed && code >= 2 ** (spec.bits - 1) ? code - 2 ** spec.bits : code;
}

/** The value of a code: a number, an infinity or NaN. */
export function decode(spec, table, code) {
  if (spec.kind === "float") {
    const { sign, exponent, significand, special } = floatParts(spec, code);
    const size = special ?? significand * spec.radix ** (exponent - spec.bias);
    return sign ? -size : size;
  }
  if (spec.kind === "fixed") return integerOf(spec, code) / 2 ** spec.fraction_bits;
  if (spec.kind === "integer") {
    const q = integerOf(spec, code);
    return q < spec.lowest ? NaN : (q - spec.zero_point) * spec.scale + 0;
  }
  return table[code];
}

/** What kind of value a code holds, in a word. */
export function classOf(spec, table, code) {
  const value = decode(spec, table, code);
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return "infinity";
  if (spec.kind === "float" && floatParts(spec, code).lowest && code % 2 ** (spec.bits - 1)) {
    return value ? "subnormal" : "zero (no subnormals)";
  }
  return value ? (spec.kind === "float" ? "normal" : "number") : "zero";
}

/** Codes of the next smaller and next larger value (infinities included, NaN left out), or null at the ends. */
export function neighbours(spec, table, code) {
  if (Number.isNaN(decode(spec, table, code))) return { below: null, above: null };
  const step = spec.kind === "float" ? stepFloat : spec.kind === "fixed" || spec.kind === "integer" ? stepInteger : stepTable;
  return { below: step(spec, table, code, -1), above: step(spec, table, code, 1) };
}

/** Floats are ordered like signed integers: count magnitudes up and down through zero. */
function stepFloat(spec, table, code, by) {
  const half = 2 ** (spec.bits - 1);
  const first = 2 ** spec.mantissa_bits; // the first code of the second binade
  const flushes = !spec.subnormals && spec.specials !== "dlfloat";
  let rank = code >= half ? half - code : code;
  if (flushes && Math.abs(rank) < first) rank = 0;
  rank += by;
  if (flushes && rank && Math.abs(rank) < first) rank = Math.sign(rank) === by ? by * first : 0;
  if (Math.abs(rank) >= half) return null;
  const next = rank < 0 ? half - rank : rank;
  return Number.isNaN(decode(spec, table, next)) ? null : next;
}

function stepInteger(spec, table, code, by) {
  const next = integerOf(spec, code) + by;
  const lowest = spec.kind === "fixed" ? -(2 ** (spec.bits - 1)) : spec.lowest;
  const highest = 2 ** (spec.signed ? spec.bits - 1 : spec.bits) - 1;
  return next < lowest || next > highest ? null : (next + 2 ** spec.bits) % 2 ** spec.bits;
}

const sortedCodes = new WeakMap(); // table → its codes in rising order of value, NaN left out

function stepTable(spec, table, code, by) {
  if (!sortedCodes.has(table)) {
    const codes = Array.from(table.keys()).filter((k) => !Number.isNaN(table[k]));
    sortedCodes.set(table, codes.sort((a, b) => table[a] - table[b]));
  }
  const order = sortedCodes.get(table);
  let place = order.indexOf(code);
  while (order[place] !== undefined && table[order[place]] === table[code]) place += by;
  return order[place] ?? null;
}

/** A value as text: all digits that matter, a real minus sign, ×10 with raised digits. */
export function show(value, digits = 0) {
  if (Number.isNaN(value)) return "NaN";
  const size = Math.abs(value);
  const sign = value < 0 || Object.is(value, -0) ? MINUS : "";
  if (size === Infinity) return `${sign}\u221e`;
  const short = digits ? Number(size.toPrecision(digits)) : size;
  if (short === 0 || (short >= 1e-6 && short < 1e9)) return sign + plain(short);
  const [mantissa, tens] = short.toExponential().split("e");
  return `${sign}${mantissa} \u00d7 10^{${String(Number(tens)).replace("-", MINUS)}}`;
}

const plain = (size) => (/e/.test(String(size)) ? size.toFixed(20).replace(/0+$/, "") : String(size));

/** The formula with the numbers filled in; what is between ^{ and } is raised. */
export function formula(spec, table, code) {
  const value = decode(spec, table, code);
  const sign = code >= 2 ** (spec.bits - 1) ? 1 : 0;
  if (spec.kind === "float") return floatFormula(spec, code);
  if (Number.isNaN(value)) return "this code is no number";
  if (spec.kind === "fixed") return `${integerSum(spec, code)} \u00d7 2^{${MINUS}${spec.fraction_bits}}`;
  if (spec.kind === "integer") return integerFormula(spec, code);
  if (spec.kind === "log" && value) {
    const quarter = 2 ** (spec.bits - 1);
    const k = code % quarter - (code % quarter >= quarter / 2 ? quarter : 0);
    return `(${MINUS}1)^{${sign}} \u00d7 2^{${show(k)}/${2 ** spec.fraction_bits}}`;
  }
  if (spec.kind === "posit" && value) {
    const log2 = Math.floor(Math.log2(Math.abs(value))); // exact: posits of up to 16 bits lie far from the next power
    const unit = 2 ** spec.exponent_size;
    const regime = Math.floor(log2 / unit);
    return `(${MINUS}1)^{${sign}} \u00d7 ${2 ** unit}^{${show(regime)}} \u00d7 2^{${log2 - regime * unit}} \u00d7 ${show(Math.abs(value) / 2 ** log2)}`;
  }
  return `entry ${code} of the table`;
}

function floatFormula(spec, code) {
  const { sign, exponent, significand, lowest, special } = floatParts(spec, code);
  if (Number.isNaN(special)) return "this code is kept for NaN, not a number";
  if (special) return `(${MINUS}1)^{${sign}} \u00d7 \u221e: this code is kept for infinity`;
  if (lowest && !spec.subnormals) return "exponent field 0 is zero here: no subnormals";
  const power = `${spec.radix}^{${exponent} ${spec.bias < 0 ? "+" : MINUS} ${Math.abs(spec.bias)}}`;
  return `(${MINUS}1)^{${sign}} \u00d7 ${power} \u00d7 ${show(significand)}`;
}

function integerSum(spec, code) {
  const sign = integerOf(spec, code) < 0;
  return sign ? `(${MINUS}2^{${spec.bits - 1}} + ${code - 2 ** (spec.bits - 1)})` : String(code);
}

function integerFormula(spec, code) {
  const plainInteger = spec.scale === 1 && !spec.zero_point;
  if (plainInteger) return integerSum(spec, code);
  const shift = spec.zero_point ? ` ${spec.zero_point < 0 ? "+" : MINUS} ${Math.abs(spec.zero_point)}` : "";
  return `${show(spec.scale)} \u00d7 (${integerSum(spec, code)}${shift})`;
}

// ---- the panel -------------------------------------------------------------------------------------------------------

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

/** Text with ^{...} as raised text. */
function rich(element, text) {
  const parts = text.split(/\^\{([^}]*)\}/);
  element.replaceChildren(...parts.map((part, k) => (k % 2 ? make("sup", {}, part) : part)));
}

const spoken = (text) => text.replace(/\^\{([^}]*)\}/g, " to the power $1");

/** Colour family of a field. */
const familyOf = (name) =>
  name === "sign" ? "sign" : /exponent|integer|regime/.test(name) ? "exponent" : "mantissa";

/** The elements of a panel, empty; `parts` names those that change. */
function skeleton() {
  const parts = {
    name: make("strong"),
    code: make("span", { class: "lp-bits-code" }),
    row: make("div", { class: "lp-bits-row" }),
    value: make("span", { class: "lp-bits-value" }),
    kind: make("span", { class: "lp-bits-kind" }),
    formula: make("span", { class: "lp-bits-formula" }),
    below: make("button", { type: "button", class: "lp-bits-step" }),
    above: make("button", { type: "button", class: "lp-bits-step" }),
    input: make("input", { type: "text", inputmode: "text", autocomplete: "off", spellcheck: "false", placeholder: "0.3" }),
    encode: make("button", { type: "button", class: "lp-bits-step" }, "Encode"),
    note: make("span", { class: "lp-bits-note", role: "status" }),
    live: make("div", { class: "lp-bits-live", "aria-live": "polite" }),
  };
  const entry = make("div", { class: "lp-bits-entry" },
    make("label", {}, "Type a value ", parts.input), parts.encode, parts.note);
  const panel = make("div", { class: "lp-bits", role: "group" },
    make("div", { class: "lp-bits-head" }, parts.name, parts.code), parts.row,
    make("div", { class: "lp-bits-result" }, parts.value, parts.formula, parts.kind),
    make("div", { class: "lp-bits-steps" }, parts.below, parts.above), entry, parts.live);
  return { panel, parts };
}

/** The switches of all fields, from the most significant bit; `switches[0]` is that of the highest bit. */
function buildSwitches(spec, row) {
  const switches = [];
  row.replaceChildren(...spec.fields.map(([name, width]) => {
    const bits = make("div", { class: "lp-bits-bits" });
    for (let k = width - 1; k >= 0; k--) {
      const bit = make("button", { type: "button", role: "switch", class: "lp-bit", tabindex: "-1",
        "aria-label": width > 1 ? `${name} bit ${k}` : `${name} bit` });
      switches.push(bit);
      bits.append(bit);
    }
    const caption = make("div", { class: "lp-bits-caption", "aria-hidden": "true" }, `${name} (${width})`);
    const number = make("div", { class: "lp-bits-number", "data-field": name, "data-width": width });
    return make("div", { class: "lp-bits-group", "data-family": familyOf(name), role: "group",
      "aria-label": `${name}, ${width} ${width > 1 ? "bits" : "bit"}` }, caption, bits, number);
  }));
  return switches;
}

function stepText(spec, table, code, next, word) {
  if (next === null) return `no value ${word}`;
  const gap = Math.abs(decode(spec, table, next) - decode(spec, table, code));
  return `${word}: ${show(decode(spec, table, next), 9)}` + (Number.isFinite(gap) ? `, gap ${show(gap, 4)}` : "");
}

function render({ model, el }) {
  keepHearing(model);
  const { panel, parts } = skeleton();
  el.append(panel);
  keepKeys(panel);
  let spec, table, switches, active = 0;

  const setPattern = (code) => {
    model.set({ pattern: code, note: {} });
    model.save_changes();
  };
  const activate = (k, focus) => {
    active = Math.max(0, Math.min(k, switches.length - 1));
    switches.forEach((bit, j) => bit.setAttribute("tabindex", j === active ? "0" : "-1"));
    if (focus) switches[active].focus();
  };
  const setBit = (k, on) => {
    const code = model.get("pattern");
    const weight = spec.bits - 1 - k;
    if (bitOf(code, weight) !== on) setPattern(code + (on ? 1 : -1) * 2 ** weight);
  };

  function newFormat() {
    spec = model.get("format_spec");
    const bytes = model.get("table"); // a DataView; its offset need not suit Float64Array
    table = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    switches = buildSwitches(spec, parts.row);
    panel.setAttribute("aria-label", `bits of ${spec.label}`);
    parts.name.textContent = spec.label;
    activate(active, false);
    newPattern();
  }

  function newPattern() {
    const code = model.get("pattern");
    if (code >= 2 ** spec.bits) return; // between two messages
    switches.forEach((bit, k) => {
      const on = bitOf(code, spec.bits - 1 - k);
      bit.setAttribute("aria-checked", String(on === 1));
      bit.textContent = String(on);
    });
    const numbers = fieldsOf(spec, code);
    for (const element of parts.row.querySelectorAll("[data-field]")) {
      const { field, width } = element.dataset;
      element.textContent = numbers[field] + (/^mantissa$|^fraction$/.test(field) ? `/${2 ** width}` : "");
    }
    const value = show(decode(spec, table, code));
    const kind = classOf(spec, table, code);
    rich(parts.value, value);
    parts.kind.textContent = kind;
    parts.code.textContent = `${spec.bits} bits, code 0x${code.toString(16).toUpperCase().padStart(Math.ceil(spec.bits / 4), "0")}`;
    const explained = formula(spec, table, code);
    rich(parts.formula, /^[(\d]/.test(explained) ? `= ${explained}` : explained);
    const next = neighbours(spec, table, code);
    for (const [word, sign] of [["below", "\u25c2 "], ["above", "\u25b8 "]]) {
      rich(parts[word], sign + stepText(spec, table, code, next[word], word));
      parts[word].disabled = next[word] === null;
      parts[word].onclick = () => setPattern(next[word]);
    }
    parts.live.textContent = `${spoken(value)}, ${kind}`;
  }

  function newNote() {
    const { text = "", tone = "" } = model.get("note");
    parts.note.textContent = text;
    parts.note.dataset.tone = tone;
    parts.input.setAttribute("aria-invalid", String(tone === "error"));
  }

  parts.row.addEventListener("click", (event) => {
    const k = switches.indexOf(event.target.closest("[role=switch]"));
    if (k < 0) return;
    activate(k, true);
    setBit(k, switches[k].textContent === "1" ? 0 : 1);
  });
  parts.row.addEventListener("keydown", (event) => {
    if (!isOwn(event)) return;
    const move = { ArrowLeft: active - 1, ArrowRight: active + 1, Home: 0, End: switches.length - 1 }[event.key];
    if (move !== undefined) activate(move, true);
    else if (event.key === "0" || event.key === "1") setBit(active, Number(event.key));
    else return; // Space and Enter click the button by themselves
    event.preventDefault();
    event.stopPropagation();
  });
  const encode = () => model.send({ kind: "type", text: parts.input.value });
  parts.encode.addEventListener("click", encode);
  parts.input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !isOwn(event)) return;
    event.preventDefault();
    event.stopPropagation();
    encode();
  });

  const listeners = { "change:format_spec": newFormat, "change:pattern": newPattern, "change:note": newNote };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
  newFormat();
  newNote();
  return () => {
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
  };
}

export default { render };
