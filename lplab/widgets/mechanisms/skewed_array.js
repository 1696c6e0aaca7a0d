// Lab 11: numbers enter a 4 × 4 array from the left and from above, skewed; cells light up; a larger result needs folds.

const [WAIT, ARRAY_TOP, BASE, HIGH] = [12, 96, 302, 40]; // step of what waits outside; the array; the bars of cycles
const DOT = 4;

export default mechanism({
  start: () => ({ m: 4, n: 4, cycle: 0 }),

  look(data, { m, n, cycle }) {
    const { folds, cycles, busy } = data.sizes[`${m} ${n}`];
    const each = cycles / folds.length;
    const working = (at) => {
      const [, , rows, columns] = folds[Math.floor(at / each)];
      const of = (row, column) => at % each - data.starts[row][column]; // products that the cell has added before
      return data.starts.map((line, r) => line.map((_, c) => r < rows && c < columns && of(r, c) >= 0 && of(r, c) < data.inner));
    };
    const counts = Array.from({ length: cycles }, (_, at) => working(at).flat().filter(Boolean).length);
    const done = counts.slice(0, cycle + 1).reduce((sum, count) => sum + count, 0);
    const share = done / (data.rows * data.columns * (cycle + 1));
    return { m, n, cycle, cycles, busy, fold: Math.floor(cycle / each), folds, within: cycle % each, cells: working(cycle), counts, share, end: cycle === cycles - 1 };
  },

  height: () => 318,

  draw(stage) {
    const { svg, width, data } = stage;
    const narrow = width < 520;
    const [unit, cell] = narrow ? [11, 30] : [12, 36];
    const [left, top] = [narrow ? 4 : 60, ARRAY_TOP];
    const x0 = narrow ? width - 4 * cell - 4 : width - 4 * cell - 90;
    add(svg, "text", { class: "lp-strong", x: left, y: top - 28 }, "result");
    const size = add(svg, "text", { class: "lp-small", x: left, y: top - 10 });
    const sums = [];
    for (let r = 0; r < data.largest; r++) {
      for (let c = 0; c < data.largest; c++) {
        sums.push([r, c, add(svg, "rect", { class: "lp-cell", x: left + c * unit, y: top + r * unit, width: unit - 1, height: unit - 1 })]);
      }
    }
    const current = add(svg, "rect", { class: "lp-fold" });
    add(svg, "text", { class: "lp-strong lp-end", x: x0 - 8, y: 44 }, "array of 4 × 4 cells");
    const array = data.starts.map((line, r) => line.map((_, c) => {
      const el = add(svg, "rect", { class: "lp-cell", x: x0 + c * cell + 1, y: top + r * cell + 1, width: cell - 2, height: cell - 2, rx: 3 });
      return el;
    }));
    // where a number is that would be in this column (or row) of cells; outside they wait closer together
    const along = (place) => (place < 0 ? place * WAIT - 2 : (place + 0.3) * cell);
    const dots = [];
    for (let line = 0; line < 4; line++) {
      for (let j = 0; j < data.inner; j++) {
        dots.push([true, line, j, add(svg, "circle", { class: "blue-fill lp-glide", r: DOT })]);
        dots.push([false, line, j, add(svg, "rect", { class: "lp-from-above lp-glide", x: -DOT, y: -DOT, width: 2 * DOT, height: 2 * DOT })]);
      }
    }
    const bar = (width - 4) / (4 * data.sizes["1 1"].cycles);
    const title = add(svg, "text", { class: "lp-small", x: 2, y: BASE - HIGH - 8 });
    const bars = Array.from({ length: 40 }, (_, at) => add(svg, "rect", { x: 2 + at * bar + 0.5, width: bar - 1 }));
    add(svg, "path", { class: "axis", d: `M2,${BASE}H${width - 2}` });
    const pills = ["rows", "columns"].map((name, k) => {
      let label;
      const key = k ? "n" : "m";
      stage.handle({
        name: `${name} of the result`,
        upright: !k,
        range: () => [1, data.largest],
        value: (now) => now[key],
        text: (now) => `${now[key]} ${name}`,
        point: ({ m, n }) => (k ? [left + n * unit + 24, top + (m * unit) / 2] : [left + (n * unit) / 2, top + m * unit + 25]),
        drag: (x, y) => (k ? (x - 24 - left) / unit : (y - 25 - top) / unit),
        set: (value) => ({ [key]: value, cycle: 0 }),
        shape: (g) => (label = pill(g, k ? 46 : 40, !k)),
        page: 3,
      });
      return label;
    });
    return (now) => {
      const { m, n, cycle, cycles, fold, folds, within, cells, counts } = now;
      [m, n].forEach((value, k) => (pills[k].textContent = value));
      set(size, {}, `${m} × ${n} sums`);
      const where = (r, c) => folds.findIndex(([t, l, rows, columns]) => r >= t && r < t + rows && c >= l && c < l + columns);
      for (const [r, c, el] of sums) {
        const own = where(r, c);
        el.style.display = own < 0 ? "none" : "";
        el.classList.toggle("done", own >= 0 && (own < fold || now.end));
      }
      const [t, l, rows, columns] = folds[fold];
      set(current, { x: left + l * unit - 1, y: top + t * unit - 1, width: columns * unit + 1, height: rows * unit + 1 });
      array.forEach((line, r) => line.forEach((el, c) => {
        el.classList.toggle("busy", cells[r][c]);
        el.classList.toggle("idle", r >= rows || c >= columns);
      }));
      for (const [across, line, j, el] of dots) {
        const place_ = within - line - j;
        const beside = (line + (across ? 0.36 : 0.66)) * cell;
        const shown = line < (across ? rows : columns) && place_ < 4;
        el.style.opacity = shown ? 1 : 0;
        const at = along(Math.min(place_, 4));
        place(el, ...(across ? [x0 + at, top + beside] : [x0 + beside, top + at]));
      }
      set(title, {}, `cells that multiply, in each of ${cycles} cycles`);
      bars.forEach((el, at) => {
        el.style.display = at < cycles ? "" : "none";
        if (at >= cycles) return;
        const high = Math.max(1.5, (HIGH * counts[at]) / 16);
        set(el, { y: BASE - high, height: high, class: at === cycle ? "lp-bar now" : at < cycle ? "lp-bar done" : "lp-bar" });
      });
    };
  },

  tell({ m, n, cycle, cycles, busy, fold, folds, counts, share, end }, state, data) {
    const result = `<b class="orange">${m} × ${n}</b>`;
    const [, , rows, columns] = folds[fold];
    if (end) {
      const full = data.sizes["4 4"];
      const more = m === 4 && n === 4
        ? "Filling and emptying takes most of the time. Now drag the result down to 5 rows."
        : cycles > full.cycles
          ? `A result of 4 × 4 takes ${full.cycles} cycles and keeps ${percent(full.busy)} of the cells busy.`
          : "A smaller result takes as long as one of 4 × 4.";
      return `The result of ${result} sums took <b>${cycles} cycles</b> in ${folds.length} ${folds.length > 1 ? "parts (<i>folds</i>)" : "part (a <i>fold</i>)"}. Over all cycles <b>${percent(busy)}</b> of the cells multiplied. ${more}`;
    }
    const works = `Cycle ${cycle + 1} of ${cycles}: <b class="blue">${counts[cycle]} of 16</b> cells multiply. On average over the cycles so far: ${percent(share)}.`;
    if (rows < 4 || columns < 4) {
      const left = rows < 4 && columns < 4 ? "rows and columns" : rows < 4 ? "rows" : "columns";
      return `${works} ${fold ? `Fold ${fold + 1} of ${folds.length}` : `The result of ${result}`} has only ${rows} × ${columns} sums, so some ${left} of cells have nothing to do. It takes as long as a full one.`;
    }
    if (counts[cycle + 1] > counts[cycle]) return `${works} Each row and each column starts one cycle later than the one before. The farther a cell is from the upper left, the longer it waits for its numbers.`;
    if (counts[cycle + 1] === counts[cycle]) return `${works} A cell multiplies the two numbers that it gets, adds the product to its own sum, and passes both on.`;
    return `${works} The cells at the upper left have their sums already, and wait for the last one.`;
  },

  controls(stage) {
    stage.steps((by, now, { cycle }) => {
      const next = cycle + by;
      return next < 0 || next >= now.cycles ? undefined : { cycle: next };
    }, { pause: 500 });
    stage.button("From the start", () => ({ cycle: 0 }), { off: (now) => now.cycle === 0 });
  },
});
