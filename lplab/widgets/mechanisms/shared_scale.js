// Lab 13: eight bars over the ruler of E2M1. The tallest one stretches the ruler for all; a cut gives two rulers.

const [TOP, BOTTOM, LEFT, RIGHT] = [34, 226, 8, 8];

const fraction = (scale) => (scale >= 1 ? String(scale) : `1/${1 / scale}`);

export default mechanism({
  start: () => ({ place: 23, cut: 0, rule: "down" }),

  look(data, { place, cut, rule }) {
    const { scales, rounded } = data.blocks[rule][cut][place];
    const sizes = data.sizes.map((size, k) => (k === data.outlier ? (place + 1) * data.step : size));
    const of = (k) => scales[cut && k >= cut ? 1 : 0];
    const largest = data.ruler.at(-1);
    return {
      sizes, rounded, scales, cut,
      zeros: rounded.filter((value) => value === 0).length,
      clipped: sizes.map((size, k) => size > largest * of(k)),
      bits: 4 + scales.length,
    };
  },

  height: () => 300,

  draw(stage) {
    const { svg, width, data } = stage;
    const count = data.sizes.length;
    const x = scale([0, count], [LEFT, width - RIGHT]);
    const y = scale([0, data.step * data.count], [BOTTOM, TOP]);
    const wide = (x(1) - x(0)) * 0.56;
    const ruler = add(svg, "g");
    const bars = data.sizes.map((_, k) => {
      const left = x(k + 0.5) - wide / 2;
      return {
        filled: add(svg, "rect", { class: "blue-fill", x: left, width: wide }),
        outline: add(svg, "rect", { class: "lp-outline", x: left, width: wide, rx: 2 }),
        was: add(svg, "text", { class: "lp-small lp-middle", x: x(k + 0.5), y: BOTTOM + 15 }),
        text: add(svg, "text", { x: x(k + 0.5), y: BOTTOM + 32 }),
      };
    });
    add(svg, "path", { class: "axis", d: `M${x(0)},${BOTTOM}H${x(count)}` });
    const cutLine = add(svg, "path", { class: "orange-line dashed", "stroke-width": 2.5 });
    let label, cutLabel;
    stage.handle({
      name: "large number",
      upright: true,
      range: () => [0, data.count - 1],
      value: (now, { place }) => place,
      text: ({ sizes, rounded }) => `${sizes[data.outlier]}, becomes ${rounded[data.outlier]}`,
      point: ({ sizes }) => [x(data.outlier + 0.5), y(sizes[data.outlier]) - 16],
      drag: (px, py) => y.inverse(py + 16) / data.step - 1,
      set: (place) => ({ place }),
      shape: (g) => (label = pill(g, width < 400 ? 58 : 68, true)),
      page: 8,
      surface: (px, py) => Math.abs(px - x(data.outlier + 0.5)) < wide / 2 && py < BOTTOM,
    });
    stage.handle({
      name: "cut",
      range: () => [0, count - 1],
      value: ({ cut }) => cut,
      text: ({ cut }) => (cut ? `after ${cut} of ${count} numbers` : "no cut"),
      point: ({ cut }) => [x(cut), BOTTOM + 56],
      drag: (px) => x.inverse(px),
      set: (cut) => ({ cut }),
      shape: (g) => (cutLabel = pill(add(g, "g"), 92)),
      page: 2,
      surface: (px, py) => py > BOTTOM + 38,
    });
    return (now) => {
      label.textContent = now.sizes[data.outlier];
      cutLabel.textContent = now.cut ? "✂ cut" : "✂ no cut";
      set(cutLabel.parentElement, { transform: `translate(${clamp(x(now.cut), 48, width - 48) - x(now.cut)})` });
      set(cutLine, { d: now.cut ? `M${x(now.cut)},${TOP - 8}V${BOTTOM + 42}` : "" });
      drawRulers(ruler, x, y, now, data);
      bars.forEach(({ filled, outline, was, text }, k) => {
        const [size, value] = [now.sizes[k], now.rounded[k]];
        set(filled, { y: y(value), height: y(0) - y(value) });
        set(outline, { y: y(size), height: y(0) - y(size) });
        outline.classList.toggle("lost", value === 0 || now.clipped[k]);
        set(was, {}, short(size));
        const long = width < 400 && short(value).length > 4; // "0.125" between its neighbours
        set(text, { class: `lp-middle ${value === 0 ? "lp-lost" : long ? "lp-small" : "lp-strong"}` }, `${width > 560 ? "→ " : ""}${short(value)}`);
      });
    };
  },

  tell({ sizes, scales, zeros, clipped, bits, cut }) {
    const lost = zeros ? `<b>${zeros} of 8</b> numbers become 0.` : "No number becomes 0.";
    const first = clipped.indexOf(true);
    const end = fraction(scales[cut && first >= cut ? 1 : 0]);
    const clip = first < 0 ? "" : ` The number ${sizes[first]} is <b>clipped</b>, because the ruler ends at 6 × ${end}.`;
    if (!cut) {
      return `The largest number, <b class="orange">${Math.max(...sizes)}</b>, sets the scale of all eight to <b class="blue">${fraction(scales[0])}</b>. ` +
        `What is up to a quarter of this scale becomes 0. ${lost}${clip}`;
    }
    return `Left of the cut the scale is <b class="blue">${fraction(scales[0])}</b>, right of it <b class="blue">${fraction(scales[1])}</b>. ${lost} ` +
      `With two scales of 8 bits a number costs ${bits} bits, with one it costs 5.${clip}`;
  },

  controls(stage) {
    stage.button("Round the scale up", (now, { rule }) => ({ rule: rule === "up" ? "down" : "up" }), { pressed: (now, { rule }) => rule === "up" });
    stage.button("No cut", () => ({ cut: 0 }), { off: (now, { cut }) => !cut });
  },
});

/** The marks of E2M1 times the scale, over the numbers that share it. */
function drawRulers(g, x, y, { scales, cut, sizes }, data) {
  g.replaceChildren();
  scales.forEach((one, k) => {
    const [from, to] = k ? [cut, sizes.length] : [0, cut || sizes.length];
    const [left, right] = [x(from) + 3, x(to) - 3];
    const ends = data.ruler.filter((mark) => mark * one <= data.step * data.count);
    add(g, "rect", { class: `blue-band${k ? " odd" : ""}`, x: left, y: y(ends.at(-1) * one), width: right - left, height: y(0) - y(ends.at(-1) * one) });
    add(g, "path", { class: "lp-mark", d: ends.map((mark) => `M${left},${y(mark * one)}H${right}`).join("") });
    // the handle of the large number is right of the middle: in a narrow picture it leaves room at both ends alone
    add(g, "text", { class: `lp-strong lp-halo${k ? " lp-end" : ""}`, x: k ? right + 3 : left, y: Math.max(y(ends.at(-1) * one) - 6, 12) }, `scale ${fraction(one)}`);
  });
}
