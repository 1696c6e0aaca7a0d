// Lab 11: cells of a 4 × 4 array keep weights; numbers enter from the left, skewed, sums run down; more weights need folds.

const [WAIT, ARRAY_TOP, BASE, HIGH] = [12, 56, 266, 40]; // step of what waits outside; the array; the bars of cycles
const DOT = 4;

export default mechanism({
  start: () => ({ k: 4, n: 4, cycle: 0 }),

  look(data, { k, n, cycle }) {
    const { folds, cycles, busy } = data.sizes[`${k} ${n}`];
    const each = cycles / folds.length;
    const working = (at) => {
      const [, , rows, columns] = folds[Math.floor(at / each)];
      const of = (row, column) => at % each - data.starts[row][column]; // products that the cell has added before
      return data.starts.map((line, r) => line.map((_, c) => r < rows && c < columns && of(r, c) >= 0 && of(r, c) < data.inputs));
    };
    const counts = Array.from({ length: cycles }, (_, at) => working(at).flat().filter(Boolean).length);
    const done = counts.slice(0, cycle + 1).reduce((sum, count) => sum + count, 0);
    const share = done / (data.rows * data.columns * (cycle + 1));
    const loaded = Math.min(cycle % each + 1, data.rows); // rows of cells that have their weights
    return { k, n, cycle, cycles, busy, loaded, fold: Math.floor(cycle / each), folds, within: cycle % each, cells: working(cycle), counts, share, end: cycle === cycles - 1 };
  },

  height: () => 282,

  draw(stage) {
    const { svg, width, data } = stage;
    const narrow = width < 520;
    const [unit, cell] = narrow ? [11, 30] : [12, 36];
    const [left, top] = [narrow ? 4 : 60, ARRAY_TOP];
    const x0 = narrow ? width - 4 * cell - 4 : width - 4 * cell - 90;
    add(svg, "text", { class: "lp-strong", x: left, y: top - 28 }, "weights");
    const size = add(svg, "text", { class: "lp-small", x: left, y: top - 10 });
    const weights = [];
    for (let r = 0; r < data.largest; r++) {
      for (let c = 0; c < data.largest; c++) {
        weights.push([r, c, add(svg, "rect", { class: "lp-cell", x: left + c * unit, y: top + r * unit, width: unit - 1, height: unit - 1 })]);
      }
    }
    const current = add(svg, "rect", { class: "lp-fold" });
    add(svg, "text", { class: "lp-strong lp-end", x: x0 + 4 * cell, y: top - 10 }, "array of 4 × 4 cells");
    const array = data.starts.map((line, r) => line.map((_, c) => {
      const el = add(svg, "rect", { class: "lp-cell", x: x0 + c * cell + 1, y: top + r * cell + 1, width: cell - 2, height: cell - 2, rx: 3 });
      add(svg, "text", { class: "lp-small lp-middle lp-weight", x: x0 + (c + 0.5) * cell, y: top + (r + 0.88) * cell }, "w");
      return el;
    }));
    // where a number is that would be in this column (or row) of cells; before the array they wait closer together
    const along = (place) => (place < 0 ? place * WAIT - 2 : (place + 0.3) * cell);
    const dots = [];
    for (let line = 0; line < 4; line++) {
      for (let j = 0; j < data.inputs; j++) {
        dots.push([true, line, j, add(svg, "circle", { class: "blue-fill lp-glide", r: DOT })]);
        dots.push([false, line, j, add(svg, "rect", { class: "lp-from-above lp-glide", x: -DOT, y: -DOT, width: 2 * DOT, height: 2 * DOT })]);
      }
    }
    const bar = (width - 4) / (4 * data.sizes["1 1"].cycles);
    const title = add(svg, "text", { class: "lp-small", x: 2, y: BASE - HIGH - 8 });
    const bars = Array.from({ length: 4 * data.sizes["1 1"].cycles }, (_, at) => add(svg, "rect", { x: 2 + at * bar + 0.5, width: bar - 1 }));
    add(svg, "path", { class: "axis", d: `M2,${BASE}H${width - 2}` });
    const pills = ["rows", "columns"].map((name, across) => {
      let label;
      const key = across ? "n" : "k";
      stage.handle({
        name: `${name} of the weights`,
        upright: !across,
        range: () => [1, data.largest],
        value: (now) => now[key],
        text: (now) => `${now[key]} ${name}`,
        point: ({ k, n }) => (across ? [left + n * unit + 24, top + (k * unit) / 2] : [left + (n * unit) / 2, top + k * unit + 25]),
        drag: (x, y) => (across ? (x - 24 - left) / unit : (y - 25 - top) / unit),
        set: (value) => ({ [key]: value, cycle: 0 }),
        shape: (g) => (label = pill(g, across ? 46 : 40, !across)),
        page: 3,
      });
      return label;
    });
    return (now) => {
      const { k, n, cycle, cycles, fold, folds, within, loaded, cells, counts } = now;
      [k, n].forEach((value, i) => (pills[i].textContent = value));
      set(size, {}, `${k} × ${n}`);
      const where = (r, c) => folds.findIndex(([t, l, rows, columns]) => r >= t && r < t + rows && c >= l && c < l + columns);
      for (const [r, c, el] of weights) {
        const own = where(r, c);
        el.style.display = own < 0 ? "none" : "";
        el.classList.toggle("done", own >= 0 && (own < fold || now.end));
      }
      const [t, l, rows, columns] = folds[fold];
      set(current, { x: left + l * unit - 1, y: top + t * unit - 1, width: columns * unit + 1, height: rows * unit + 1 });
      array.forEach((line, r) => line.forEach((el, c) => {
        el.classList.toggle("busy", cells[r][c]);
        el.classList.toggle("loaded", r < Math.min(loaded, rows) && c < columns);
        el.classList.toggle("idle", r >= rows || c >= columns);
      }));
      for (const [across, line, j, el] of dots) {
        const place_ = Math.max(within - data.rows, -1) - line - j; // all wait while weights are loaded
        const beside = (line + (across ? 0.36 : 0.66)) * cell;
        const shown = across ? line < rows && place_ < 4 : line < columns && place_ >= 0 && place_ <= 4; // a sum leaves below
        el.style.opacity = shown ? 1 : 0;
        const at = along(across ? Math.min(place_, 4) : clamp(place_, -1, 4));
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

  tell({ k, n, cycle, cycles, busy, fold, folds, within, counts, share, end }, state, data) {
    const [, , rows, columns] = folds[fold];
    if (end) {
      const full = data.sizes["4 4"];
      const more = k === 4 && n === 4
        ? "Loading, filling and emptying take most of the time. Now drag the weights down to 5 rows."
        : cycles > full.cycles
          ? `4 × 4 weights take ${full.cycles} cycles and keep ${percent(full.busy)} of the cells busy.`
          : "Fewer weights take as long as 4 × 4.";
      return `The <b class="orange">${k} × ${n}</b> weights took <b>${cycles} cycles</b> in ${folds.length} ${folds.length > 1 ? "parts (<i>folds</i>)" : "part (a <i>fold</i>)"}. Over all cycles <b>${percent(busy)}</b> of the cells multiplied. ${more}`;
    }
    const works = `Cycle ${cycle + 1} of ${cycles}: <b class="blue">${counts[cycle]} of 16</b> cells multiply. On average over the cycles so far: ${percent(share)}.`;
    if (within < data.rows) return `${works} The weights move in from above, one row in each cycle. Nothing is multiplied yet.`;
    if (rows < 4 || columns < 4) {
      const left = rows < 4 && columns < 4 ? "rows and columns" : rows < 4 ? "rows" : "columns";
      return `${works} ${fold ? `Fold ${fold + 1} of ${folds.length}` : "The matrix"} has only ${rows} × ${columns} weights, so some ${left} of cells have nothing to do. It takes as long as a full one.`;
    }
    if (counts[cycle + 1] > counts[cycle]) return `${works} Each row and each column starts one cycle later than the one before. The farther a cell is from the upper left, the longer it waits for its numbers.`;
    if (counts[cycle + 1] === counts[cycle]) return `${works} A cell multiplies the number from the left (a circle) by its weight, adds the product to the sum from above (a square), and passes both on.`;
    return `${works} The cells at the upper left have done their work, and wait for the last one.`;
  },

  controls(stage) {
    stage.steps((by, now, { cycle }) => {
      const next = cycle + by;
      return next < 0 || next >= now.cycles ? undefined : { cycle: next };
    }, { pause: 500 });
    stage.button("From the start", () => ({ cycle: 0 }), { off: (now) => now.cycle === 0 });
  },
});
