// Lab 06: eight bits with a divider. The rectangle of range and precision gets wider and lower, and is dragged over tensors.

const [BOX, BITS] = [28, 6]; // size of a bit, and where the row of bits begins
const [BASE, STEP] = [152, 9]; // foot of the rectangle, and pixels for a bit of precision
const [ROW, HIGH, WORDS] = [170, 44, 16]; // first row of numbers, height of a row, and of its words above its bars
const AXIS = ROW + 3 * HIGH;
const [LEFT, RIGHT] = [8, 8];

/** The window that a row has: its own, or that of all. */
const found = (data, { exponent, top }) => data.windows[exponent - data.exponents[0]][top - data.tops[0]];

const FIT = "<b>All three rows fit:</b> each loses at most 1\u00a0%.";

export default mechanism({
  start: (data) => ({ exponent: data.start[0], top: data.start[1], own: null }),

  look(data, { exponent, top, own }) {
    const all = found(data, { exponent, top });
    const gradient = own && found(data, own);
    const rows = data.rows.map(({ name }, k) => {
      const { low, high, zero, saturated } = gradient && k === data.rows.length - 1 ? gradient : all;
      return { name, low, high, zero: zero[k], saturated: saturated[k] };
    });
    return { windows: own ? [{ exponent, top, ...all }, { ...own, ...gradient }] : [{ exponent, top, ...all }], rows };
  },

  height: () => AXIS + 18,

  draw(stage) {
    const { svg, width, data } = stage;
    const x = scale(data.octaves, [LEFT, width - RIGHT]);
    const boxes = Array.from({ length: 8 }, (_, k) => {
      const box = add(svg, "rect", { x: LEFT + k * BOX, y: BITS, width: BOX - 3, height: BOX - 3, rx: 4, class: "lp-bit-box" });
      return { box, digit: add(svg, "text", { class: "lp-small lp-middle", x: LEFT + k * BOX + 12.5, y: BITS + 17 }) };
    });
    const cutAt = (exponent) => LEFT + (1 + exponent) * BOX - 1.5;
    const cut = add(svg, "path", { class: "orange-line", "stroke-width": 2.5 });
    const kind = add(svg, "text", { class: "lp-strong", x: LEFT + 8 * BOX + 8, y: BITS + 18 });
    const bands = add(svg, "g");
    data.rows.forEach(({ name }, k) => add(svg, "text", { class: "lp-small lp-halo", x: LEFT, y: ROW + k * HIGH + 11 }, name));
    const bars = data.rows.map(({ counts }, k) => counts.map((count, octave) => {
      const foot = ROW + (k + 1) * HIGH - 3;
      const left = x(data.octaves[0] + octave);
      return add(svg, "rect", { x: left + 0.5, y: foot - count * (HIGH - WORDS - 3), width: x(1) - x(0) - 1, height: count * (HIGH - WORDS - 3) });
    }));
    const lost = data.rows.map((_, k) => add(svg, "text", { class: "lp-end lp-halo", x: width - RIGHT, y: ROW + k * HIGH + 11 }));
    add(svg, "path", { class: "axis", d: `M${LEFT},${AXIS}H${width - RIGHT}` });
    for (const [exponent, text] of data.ticks) add(svg, "text", { class: "lp-small lp-middle", x: x(exponent), y: AXIS + 15 }, text);
    const own = ({ own, exponent, top }) => own ?? { exponent, top };
    const change = (changes) => (stage.state.own ? { own: { ...stage.state.own, ...changes } } : changes);
    let label, windowLabel;
    stage.handle({
      name: "divider",
      range: () => data.exponents,
      value: (now, state) => own(state).exponent,
      text: (now, state) => `${own(state).exponent} exponent bits, ${7 - own(state).exponent} mantissa bits`,
      point: (now, state) => [cutAt(own(state).exponent), BITS + BOX + 22],
      drag: (px) => (px - LEFT) / BOX - 1,
      set: (exponent) => change({ exponent }),
      shape: (g) => (label = pill(g, 90)),
      page: 2,
      surface: (px, py) => py < BITS + BOX && px < LEFT + 8 * BOX,
    });
    const middle = ({ low, high }) => clamp((x(low) + x(high)) / 2, 52, width - 52);
    stage.handle({
      name: "window",
      range: () => data.tops,
      value: (now, state) => own(state).top,
      text: (now, state) => `largest number near 2^${own(state).top}`,
      point: ({ windows }) => [middle(windows.at(-1)), BASE - 12],
      drag(px, py, { windows }, state) {
        // the pill lies in the middle of what is seen of the window
        const one = windows.at(-1);
        return own(state).top + Math.round(x.inverse(px) - x.inverse(middle(one)));
      },
      set: (top) => change({ top }),
      shape: (g) => (windowLabel = pill(g, 92)),
      page: 4,
      surface: (px, py) => py > BITS + BOX + 40,
    });
    return (now, state) => {
      const { exponent } = own(state);
      label.textContent = "divider";
      windowLabel.textContent = "window";
      boxes.forEach(({ box, digit }, k) => {
        digit.textContent = k === 0 ? "±" : k <= exponent ? "e" : "m";
        box.style.fillOpacity = k && k <= exponent ? 0.3 : 0;
        box.style.fill = "var(--lp-blue)";
      });
      set(cut, { d: `M${cutAt(exponent)},${BITS - 4}V${BITS + BOX + 8}` });
      set(kind, {}, `1-${exponent}-${7 - exponent}`);
      drawWindows(bands, x, width, now.windows);
      now.rows.forEach(({ low, high, zero, saturated }, k) => {
        bars[k].forEach((bar, octave) => {
          const at = data.octaves[0] + octave + 0.5;
          bar.setAttribute("class", at < low || at > high ? "orange-fill" : "blue-fill");
        });
        const gone = zero >= saturated ? `${percent(zero)} become 0` : `${percent(saturated)} too large`;
        set(lost[k], { class: `lp-halo lp-end ${zero + saturated > 0.01 ? "lp-strong" : "lp-small"}` }, gone);
      });
    };
  },

  tell({ windows, rows }) {
    const { exponent, low, high, error } = windows.at(-1);
    const gone = rows.filter(({ zero, saturated }) => zero + saturated > 0.01).map(({ name, zero, saturated }) => `${percent(zero + saturated)} of the ${name}`);
    const what = gone.length ? `It loses <b>${gone.join(" and ")}</b>.` : FIT;
    const head = windows.length > 1 ? `The gradient has a window of its own, 1-${exponent}-${7 - exponent}.` : `1-${exponent}-${7 - exponent}:`;
    const start = windows.length > 1 ? `${head} Its numbers reach over` : `With ${exponent} exponent bits the numbers reach over`;
    return `${start} <b class="blue">${Math.round(high - low - 1)} octaves</b>, and with ${7 - exponent} mantissa bits rounding is off by at most <b class="blue">${percent(error)}</b>. ` +
      (windows.length > 1 ? (gone.length ? `Both windows together lose <b>${gone.join(" and ")}</b>.` : FIT) : what);
  },

  controls(stage) {
    stage.button("A window of its own for the gradient", (now, { own, exponent, top }) => ({ own: own ? null : { exponent, top } }), {
      pressed: (now, { own }) => Boolean(own),
    });
  },
});

/** The rectangles, as high as their bits of precision, and their bands over the rows. */
function drawWindows(g, x, width, windows) {
  g.replaceChildren();
  windows.forEach(({ low, high, exponent }, k) => {
    const [left, right] = [Math.max(x(low), 0), Math.min(x(high), width)];
    const size = { x: left, width: Math.max(right - left, 0) };
    const tall = STEP * (8 - exponent);
    const kind = k ? "orange-line" : "blue-line";
    const last = ROW + 2 * HIGH;
    const [from, to] = k ? [last, AXIS] : [ROW - 6, windows.length > 1 ? last - 3 : AXIS];
    add(g, "rect", { class: k ? "amber-band" : "blue-band", ...size, y: from, height: to - from });
    add(g, "rect", { class: k ? "amber-band" : "blue-band odd", ...size, y: BASE - tall, height: tall });
    add(g, "rect", { class: `${kind} ${k ? "dashed" : ""}`, "stroke-width": 2.5, ...size, y: BASE - tall, height: tall });
  });
}
