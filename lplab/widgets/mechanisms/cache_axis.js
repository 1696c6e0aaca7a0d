// Lab 15: numbers of a cache that share four levels, along a token or along a channel. Keys have large columns, values do not.

const [TOP, HIGH] = [52, 128]; // of the maps
const RULER = 204;
const BARS = 244;
const SHADES = 8;
const NAMES = { keys: "the scores", values: "A·V" };

export default mechanism({
  start: () => ({ keys: "token", values: "token", strips: { keys: 6, values: 6 }, held: "keys" }),

  look(data, state) {
    const now = Object.fromEntries(Object.entries(data.maps).map(([name, { numbers, rounded, levels, errors }]) => {
      const [axis, strip] = [state[name], state.strips[name]];
      const along = (table) => (axis === "token" ? table[strip] : table.map((row) => row[strip]));
      const [exact, found] = [along(numbers), along(rounded[axis])];
      const off = exact.reduce((sum, x, k) => sum + Math.abs(x - found[k]), 0) / exact.length;
      const steps = levels[axis][strip];
      return [name, { axis, strip, numbers: exact, levels: steps, apart: steps[1] - steps[0], off, error: errors[axis], best: errors[axis] === Math.min(...Object.values(errors)) }];
    }));
    return now;
  },

  height: () => 290,

  draw(stage) {
    const { width, data } = stage;
    const maps = Object.entries(data.maps).map(([name, part], k) => drawMap(stage, name, part, k ? [width / 2 + 12, width - 46] : [46, width / 2 - 12], k));
    return (now) => maps.forEach((update) => update(now));
  },

  tell(now, { held }, data) {
    const { axis, strip, levels, apart, off } = now[held];
    const which = axis === "token" ? `token ${data.token + strip} (“${data.pieces[strip]}”)` : `channel ${data.channel + strip}`;
    const one = `<b class="orange">${held === "keys" ? "Keys" : "Values"}, ${which}</b>: ${data.pieces.length} numbers share the levels from ${short(levels[0], 2)} to ${short(levels.at(-1), 2)}, which are <b class="blue">${short(apart, 2)}</b> apart. On average a number is ${short(off, 2)} off.`;
    const both = `The scores are <b>${percent(now.keys.error)}</b> off, and A·V <b>${percent(now.values.error)}</b>`;
    return `${one} ${both}${now.keys.best && now.values.best ? ". <b>No other choice is better.</b>" : "."}`;
  },

  controls(stage) {
    for (const name of Object.keys(stage.data.maps)) {
      for (const axis of ["token", "channel"]) {
        stage.button(`${name === "keys" ? "Keys" : "Values"} by ${axis}`, () => ({ [name]: axis, held: name }), { pressed: (now) => now[name].axis === axis });
      }
    }
  },
});

/** A map, the ruler of its strip, and the errors below; returns what draws the rest. */
function drawMap(stage, name, part, [left, right], k) {
  const { svg, width, data } = stage;
  const count = part.numbers.length;
  const [wide, tall] = [(right - left) / count, HIGH / count];
  const most = Math.max(...part.numbers.flat().map(Math.abs));
  add(svg, "text", { class: "lp-strong", x: left, y: 13 }, name);
  add(svg, "rect", { class: "lp-trough", x: left, y: TOP, width: right - left, height: HIGH });
  const shades = Array.from({ length: SHADES + 1 }, () => "");
  part.numbers.forEach((row, t) => row.forEach((x, c) => {
    shades[Math.round((SHADES * Math.abs(x)) / most)] += `M${left + c * wide},${TOP + t * tall}h${wide}v${tall}h${-wide}z`;
  }));
  shades.forEach((d, shade) => add(svg, "path", { class: "blue-fill", "fill-opacity": shade / SHADES, d }));
  const borders = add(svg, "path", { class: "grid" });
  const strip = add(svg, "rect", { class: "orange-line", "stroke-width": 3 });
  const at = scale([-most, most], [left, right]);
  add(svg, "path", { class: "axis", d: `M${left},${RULER}H${right}` });
  const marks = add(svg, "path", { class: "blue-line", "stroke-width": 3 });
  const dots = add(svg, "g");
  const apart = add(svg, "text", { class: "lp-small lp-middle", x: (left + right) / 2, y: RULER + 24 });
  const start = k ? width / 2 + 8 : 2;
  const bar = scale([0, 0.6], [start + 62, (k ? width : width / 2 - 12) - 40]);
  add(svg, "text", { class: "lp-small", x: start, y: BARS }, `error of ${NAMES[name]}`);
  const bars = ["token", "channel"].map((axis, row) => {
    const y = BARS + 8 + 18 * row;
    const error = part.errors[axis];
    const text = { y: y + 11 };
    return [axis, [
      add(svg, "text", { ...text, x: start }, axis),
      add(svg, "rect", { x: bar(0), y, width: bar(error) - bar(0), height: 13 }),
      add(svg, "text", { ...text, x: bar(error) + 5 }, percent(error)),
    ]];
  });
  let signs;
  stage.handle({
    name: `strip of the ${name}`,
    range: () => [0, count - 1],
    value: (now) => now[name].strip,
    text: (now) => `${now[name].axis} ${data[now[name].axis] + now[name].strip}, levels ${short(now[name].apart, 2)} apart`,
    point: (now) => (now[name].axis === "channel" ? [left + (now[name].strip + 0.5) * wide, TOP - 20] : [k ? right + 24 : left - 24, TOP + (now[name].strip + 0.5) * tall]),
    drag: (px, py, now) => (now[name].axis === "channel" ? (px - left) / wide : (py - TOP) / tall) - 0.5,
    set: (to) => ({ strips: { ...stage.state.strips, [name]: to }, held: name }),
    shape: (g) => (signs = [false, true].map((upright) => {
      const sign = add(g, "g");
      return { sign, text: pill(sign, upright ? 44 : 56, upright) };
    })),
    page: 8,
    surface: (px, py) => px > left && px < right && py > TOP && py < TOP + HIGH,
  });
  return (now) => {
    const { axis, strip: place, numbers, levels, apart: step } = now[name];
    const down = axis === "channel";
    signs.forEach(({ sign, text }, upright) => {
      sign.style.display = down === !upright ? "" : "none";
      set(text, {}, data[axis] + place);
      const x = left + (place + 0.5) * wide;
      if (!upright) set(sign, { transform: `translate(${clamp(x, left + 17, right - 17) - x})` }); // two handles side by side
    });
    set(strip, down ? { x: left + place * wide - 1, y: TOP - 1, width: wide + 2, height: HIGH + 2 } : { x: left - 1, y: TOP + place * tall - 1, width: right - left + 2, height: tall + 2 });
    const lines = Array.from({ length: count + 1 }, (_, line) => (down ? `M${left + line * wide},${TOP}v${HIGH}` : `M${left},${TOP + line * tall}H${right}`));
    set(borders, { d: lines.join("") });
    set(marks, { d: levels.map((level) => `M${at(level)},${RULER - 10}v20`).join("") });
    dots.replaceChildren();
    for (const x of numbers) add(dots, "circle", { class: "green-fill", "fill-opacity": 0.6, cx: at(x), cy: RULER, r: 3 });
    set(apart, {}, `${right - left < 140 ? "" : "4 levels, "}${short(step, 2)} apart`); // a phone has no room for both
    for (const [each, [label, box, value]] of bars) {
      set(box, { class: each === axis ? "blue-fill" : "lp-outline" });
      for (const text of [label, value]) set(text, { class: each === axis ? "lp-strong" : "lp-small" });
    }
  };
}
