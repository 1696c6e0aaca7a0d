// Lab 04: a ball on the staircase of a rounding. It is flat, so nothing rolls; with slope 1 the weight jumps between two levels.

const [TOP, BOTTOM] = [22, 216];
const [LEFT, RIGHT] = [40, 96];
const fraction = (y) => ["0", "1/3", "2/3", "1"][Math.round(3 * y)];

export default mechanism({
  start: (data) => ({ place: data.start, step: 0, slope: 0 }),

  look(data, { place, step, slope }) {
    const path = data.paths[place];
    const at = slope ? step : 0;
    const [w, y] = [path.w[at], path.y[at]];
    const late = Array.from({ length: data.late }, (_, k) => path.y[slope ? step - k : 0]);
    const mean = step < data.late - 1 ? null : late.reduce((a, b) => a + b, 0) / data.late;
    return { w, y, gradient: slope * (y - data.target), mean, end: step === path.w.length - 1 };
  },

  height: () => 288,

  draw(stage) {
    const { svg, width, data } = stage;
    const x = scale([0, 1], [LEFT, width - RIGHT]);
    const y = scale([0, 1], [BOTTOM, TOP]);
    const stairs = data.levels.map((level, k) => `${k ? "V" : `M${x(0)},`}${y(level)}H${x(data.edges[k] ?? 1)}`).join("");
    for (const level of data.levels) add(svg, "text", { class: "lp-small lp-end", x: LEFT - 8, y: y(level) + 4 }, fraction(level));
    add(svg, "text", { class: "lp-small", x: 2, y: 10 }, "rounded weight y");
    add(svg, "path", { class: "green-line dashed", "stroke-width": 2.5, d: `M${LEFT},${y(data.target)}H${width - RIGHT + 14}` });
    add(svg, "text", { class: "lp-strong", x: width - RIGHT + 18, y: y(data.target) + 4 }, `target ${data.target}`);
    add(svg, "path", { class: "axis", "stroke-width": 3, d: stairs });
    const trail = add(svg, "g");
    const stem = add(svg, "path", { class: "orange-line dashed", "stroke-width": 1.5 });
    const slopeLine = add(svg, "path", { "stroke-width": 4 });
    const ball = add(svg, "circle", { class: "orange-fill lp-glide", r: 10, stroke: "var(--lp-ground)", "stroke-width": 2 });
    const name = add(svg, "text", { class: "lp-strong lp-halo" });
    let label;
    stage.handle({
      name: "weight w",
      range: () => [0, data.paths.length - 1],
      value: (now, { place }) => place,
      text: ({ w, y: level }) => `${short(w, 3)}, rounded to ${fraction(level)}`,
      point: ({ w }) => [x(w), BOTTOM + 26],
      drag: (px) => (x.inverse(px) - data.paths[0].w[0]) / (data.paths[1].w[0] - data.paths[0].w[0]),
      set: (place) => ({ place, step: 0 }),
      shape: (g) => (label = pill(add(g, "g"), 96)),
      page: 8,
      surface: (px, py) => py > BOTTOM + 8,
    });
    return (now, { place, step, slope }) => {
      const [px, py] = [x(now.w), y(now.y)];
      label.textContent = `w = ${now.w.toFixed(2)}`;
      set(label.parentElement, { transform: `translate(${clamp(px, 50, width - 50) - px})` });
      set(stem, { d: `M${px},${py}V${BOTTOM + 12}` });
      moveTo(ball, px, py);
      const [dx, dy] = slope ? [34, (34 * (y(0) - y(1))) / (x(1) - x(0))] : [44, 0];
      set(slopeLine, { class: slope ? "blue-line" : "axis", d: `M${px - dx},${py + dy}L${px + dx},${py - dy}` });
      set(name, { class: `lp-strong lp-halo ${slope ? "lp-end" : "lp-middle"}`, x: slope ? px - 16 : px, y: py - 18 }, `slope ${slope}`);
      trail.replaceChildren();
      const { w, y: levels } = data.paths[place];
      if (slope) for (let k = 0; k < step; k += 1) add(trail, "circle", { class: "blue-fill", "fill-opacity": 0.35, cx: x(w[k]), cy: y(levels[k]), r: 4 });
    };
  },

  tell({ w, y, gradient, mean, end }, { step, slope }, data) {
    const weight = `The weight is <b class="orange">${short(w, 3)}</b> and rounded to <b>${fraction(y)}</b>. The target is <b class="green">${data.target}</b>.`;
    const level = `${weight} The level is too ${y < data.target ? "small" : "large"}.`;
    const still = step ? `, and after ${step} ${step === 1 ? "step" : "steps"} the weight <b>has not moved</b>` : "";
    if (!slope) return `${level} But the stair is flat: a slope of 0 makes a gradient of 0${still}.`;
    if (end && mean !== null) return `${weight} The weight jumps between 2/3 and 1. The mean of the last ${data.late} levels is <b class="blue">${short(mean, 3)}</b>.`;
    return `${level} With slope 1 the gradient is ${short(gradient, 2)}, so the weight ${gradient < 0 ? "grows" : "shrinks"}.`;
  },

  controls(stage) {
    stage.steps((by, now, { step }) => {
      const to = step + by;
      return to < 0 || to >= stage.data.paths[0].w.length ? undefined : { step: to };
    }, { pause: 300 });
    for (const slope of [0, 1]) stage.button(`Slope ${slope}`, () => ({ slope, step: 0 }), { pressed: (now, state) => state.slope === slope });
  },
});

const moveTo = place; // a state has a place, too
