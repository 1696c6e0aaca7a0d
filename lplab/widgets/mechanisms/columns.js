// Lab 15: a matrix is rounded from left to right. GPTQ moves the columns still to come, so that the output stays.

const [TOP, ROW] = [36, 15]; // of the matrix
const [HIGH, FOOT] = [198, 288]; // of the errors
const [LEFT, RIGHT] = [46, 14];

export default mechanism({
  start: () => ({ border: 3, bits: 2, way: "recorded" }),

  look(data, { border, bits, way }) {
    const course = data[bits][way];
    const moved = course.moved[border];
    const sizes = moved.flat().map(Math.abs);
    return {
      border, moved,
      codes: course.codes.map((row) => row.slice(0, border)),
      differ: course.codes.flatMap((row, r) => row.slice(0, border).filter((code, j) => code !== course.other[r][j])).length,
      most: Math.max(0, ...sizes),
      nearest: course.errors.nearest[border],
      gptq: course.errors.gptq[border],
    };
  },

  height: () => 302,

  draw(stage) {
    const { svg, width, data } = stage;
    const courses = Object.values(data).flatMap(Object.values);
    const { codes } = courses[0];
    const count = codes[0].length;
    const x = scale([0, count], [LEFT, width - RIGHT]);
    const wide = x(1) - x(0);
    const bottom = TOP + ROW * codes.length;
    const longest = Math.max(...courses.flatMap(({ moved }) => moved.flat(2)).map(Math.abs));
    add(svg, "text", { class: "lp-small lp-middle", transform: `translate(${LEFT - 12},${(TOP + bottom) / 2}) rotate(-90)` }, "outputs");
    const cells = codes.map((row, r) => row.map((_, j) => {
      const g = add(svg, "g", { transform: `translate(${x(j)},${TOP + r * ROW})` });
      const shade = add(g, "rect", { width: wide - 1, height: ROW - 1, x: 0.5, y: 0.5 });
      return { shade, arrow: add(g, "path", { class: "axis", "stroke-width": 1.6 }), text: add(g, "text", { class: "lp-small lp-middle", x: wide / 2, y: 12 }) };
    }));
    const across = codes.map((_, r) => `M${x(0)},${TOP + r * ROW}H${x(count)}`).join("");
    add(svg, "path", { class: "tick faint", d: `${across}${codes[0].map((_, j) => `M${x(j)},${TOP}V${bottom}`).join("")}M${x(count)},${TOP}V${bottom}H${x(0)}` });
    const y = scale([0, 1.05 * Math.max(...courses.flatMap(({ errors }) => errors.nearest))], [FOOT, HIGH]);
    for (const mark of [0, 0.25, 0.5].filter((each) => y(each) >= HIGH)) {
      add(svg, "path", { class: "grid", d: `M${LEFT},${y(mark)}H${width - RIGHT}` });
      add(svg, "text", { class: "lp-small lp-end", x: LEFT - 6, y: y(mark) + 4 }, percent(mark).replace("<", ""));
    }
    add(svg, "path", { class: "axis", d: `M${LEFT},${FOOT}H${width - RIGHT}` });
    const narrow = width < 380; // there the legend has a line of its own
    add(svg, "text", { class: "lp-small", x: 2, y: bottom + (narrow ? 16 : 28) }, "error of the output");
    const legend = narrow ? 2 : width - RIGHT - 236;
    const texts = ["nearest", "gptq"].map((how, k) => {
      const left = legend + k * (width - RIGHT - legend) / 2;
      add(svg, "path", { class: how === "gptq" ? "blue-line" : "axis dashed", "stroke-width": 3, d: `M${left},${bottom + (narrow ? 30 : 24)}h14` });
      return add(svg, "text", { class: "lp-small", x: left + 18, y: bottom + (narrow ? 34 : 28) });
    });
    const lines = { nearest: add(svg, "path", { class: "axis dashed", "stroke-width": 2 }), gptq: add(svg, "path", { class: "blue-line", "stroke-width": 2.5 }) };
    const dots = { nearest: add(svg, "circle", { class: "lp-tip", r: 5 }), gptq: add(svg, "circle", { class: "blue-fill", r: 5 }) };
    const line = add(svg, "path", { class: "orange-line", "stroke-width": 3 });
    let label;
    stage.handle({
      name: "border",
      range: () => [0, count],
      value: ({ border }) => border,
      text: ({ border, gptq, nearest }) => `${border} columns rounded, error ${percent(gptq)} with GPTQ, ${percent(nearest)} to nearest`,
      point: ({ border }) => [x(border), 16],
      drag: (px) => x.inverse(px),
      set: (border) => ({ border }),
      shape: (g) => (label = pill(add(g, "g"), 92)),
      page: 4,
      surface: () => true,
    });
    return (now, { bits, way }) => {
      label.textContent = `${now.border} of ${count}`;
      set(label.parentElement, { transform: `translate(${clamp(x(now.border), 48, width - 48) - x(now.border)})` });
      set(line, { d: `M${x(now.border)},30V${bottom + 4}M${x(now.border)},${HIGH - 4}V${FOOT}` });
      cells.forEach((row, r) => row.forEach(({ shade, arrow, text }, j) => {
        const done = j < now.border;
        const code = now.codes[r][j];
        const move = done ? 0 : now.moved[r][j - now.border];
        set(shade, { class: done ? "lp-level" : "blue-fill", "fill-opacity": done ? 0.06 + (0.3 * code) / (2 ** bits - 1) : 0.85 * Math.sqrt(Math.abs(move) / longest) });
        set(text, {}, done ? code : "");
        const tall = 5.5 * Math.sign(move) * Math.sqrt(Math.abs(move) / longest); // the root, so that small moves are seen
        set(arrow, { d: Math.abs(tall) < 1 ? "" : `M${wide / 2},${ROW / 2 + tall}v${-2 * tall}m-3.5,${Math.sign(tall) * 3}l3.5,${-Math.sign(tall) * 3}l3.5,${Math.sign(tall) * 3}` });
      }));
      for (const how of ["nearest", "gptq"]) {
        const until = data[bits][way].errors[how].slice(0, now.border + 1);
        set(lines[how], { d: `M${until.map((error, j) => `${x(j)},${y(error)}`).join("L")}` });
        set(dots[how], { cx: x(now.border), cy: y(now[how]) });
      }
      set(texts[0], {}, `nearest ${percent(now.nearest)}`);
      set(texts[1], {}, `GPTQ ${percent(now.gptq)}`);
    };
  },

  tell({ border, moved, most, codes, differ, nearest, gptq }, { bits, way }) {
    const levels = `one of ${2 ** bits} levels of its row`;
    if (!border) return `Nothing is rounded, and the output is exact. Each weight will get ${levels}.`;
    const error = `With GPTQ the output is <b class="blue">${percent(gptq)}</b> off, with rounding to nearest ${percent(nearest)}.`;
    const which = border === 1 ? "Column 1 is" : `Columns 1 to ${border} are`;
    const shuffled = way === "shuffled";
    const why = shuffled ? " <b>Shuffled</b> inputs tell nothing of each other, so no column can make up for much." : "";
    if (moved[0].length) return `<b class="orange">${which} rounded.</b> To make up for it, weights to come have moved by up to <b class="blue">${short(most, 2)} times</b> the step between two levels. ${error}${why}`;
    const last = shuffled ? why : " No column is left to make up for the last error.";
    return `<b class="orange">All columns are rounded</b>, ${differ} of ${codes.flat().length} weights to another level than the nearest. ${error}${last}`;
  },

  controls(stage) {
    stage.steps((by, now, { border }) => {
      const to = border + by;
      return to < 0 || (by > 0 && !now.moved[0].length) ? undefined : { border: to };
    });
    for (const bits of Object.keys(stage.data).map(Number)) stage.button(`${bits} bits`, () => ({ bits }), { pressed: (now, state) => state.bits === bits });
    stage.button("Shuffle the inputs", (now, { way }) => ({ way: way === "recorded" ? "shuffled" : "recorded" }), { pressed: (now, { way }) => way === "shuffled" });
  },
});
