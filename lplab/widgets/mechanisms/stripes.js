// Lab 13: x, w and g in blocks that are turned. In a sum, few pairs of scales meet only if blocks lie along the axis of the sum.

const [TOP, PICK] = [48, 278];
const GAP = 16;

export default mechanism({
  start: () => ({ product: "y", number: 17, ways: { x: "down", w: "down", g: "down" } }),

  look(data, { product, number, ways }) {
    const { factors, axes, summed } = data.products[product];
    const columns = data.sizes[axes[1]];
    const place = number % (data.sizes[axes[0]] * columns);
    const at = { [axes[0]]: Math.floor(place / columns), [axes[1]]: place % columns };
    const terms = Array.from({ length: data.sizes[summed] }, (_, k) => factors.map((name) => data.matrices[name].map((axis) => (axis === summed ? k : at[axis]))));
    const pairs = terms.map((cells) => cells.map(([row, column], k) => data.blocks[factors[k]][ways[factors[k]]][row][column]));
    const many = new Set(pairs.map((pair) => pair.join())).size;
    return { place, factors, axes, at, summed, terms, pairs: many, legal: many === terms.length / data.block };
  },

  height: () => 312,

  draw(stage) {
    const { svg, width, data } = stage;
    const names = Object.keys(data.matrices);
    const columns = names.map((name) => data.sizes[data.matrices[name][1]]);
    const cell = Math.min(17, (width - 2 * GAP - 4) / columns.reduce((a, b) => a + b));
    let left = 2;
    const drawn = names.map((name, k) => {
      const g = add(svg, "g", { transform: `translate(${left},${TOP})` });
      left += columns[k] * cell + GAP;
      const [rows, across] = data.matrices[name];
      const narrow = cell < 14; // then the names of the axes have a line each
      add(g, "text", { class: "lp-strong", x: 0, y: narrow ? -34 : -20 }, name);
      const sizes = narrow ? [`${rows} ×`, across] : [`${rows} × ${across}`];
      sizes.forEach((size, line) => add(g, "text", { class: "lp-small", x: 0, y: -6 - 14 * (sizes.length - 1 - line) }, size));
      const cells = Array.from({ length: data.sizes[rows] }, (_, row) =>
        Array.from({ length: columns[k] }, (__, column) => add(g, "rect", { x: column * cell, y: row * cell, width: cell, height: cell })));
      return { g, cells, borders: add(g, "path", { class: "blue-line", "stroke-width": 2 }), marks: add(g, "path", { class: "orange-line", "stroke-width": 2.5 }) };
    });
    const most = Math.max(...Object.values(data.products).map(({ axes }) => data.sizes[axes[0]] * data.sizes[axes[1]]));
    const x = scale([0, most - 1], [58, width - 58]);
    add(svg, "path", { class: "axis", d: `M${x(0)},${PICK}H${x(most - 1)}` });
    let label;
    stage.handle({
      name: "number of the result",
      range: ({ axes }) => [0, data.sizes[axes[0]] * data.sizes[axes[1]] - 1],
      value: ({ place }) => place,
      text: ({ at, axes }, { product }) => `${product}, row ${at[axes[0]]}, column ${at[axes[1]]}`,
      point: ({ axes, place }) => [x((place / (data.sizes[axes[0]] * data.sizes[axes[1]] - 1)) * (most - 1)), PICK],
      drag: (px, py, { axes }) => (x.inverse(px) / (most - 1)) * (data.sizes[axes[0]] * data.sizes[axes[1]] - 1),
      set: (number) => ({ number }),
      shape: (g) => (label = pill(g, 108)),
      page: 12,
      surface: (px, py) => py > PICK - 20,
    });
    return (now, { product, ways }) => {
      label.textContent = `${product}[${now.at[now.axes[0]]}, ${now.at[now.axes[1]]}]`;
      names.forEach((name, k) => {
        const { g, cells, borders, marks } = drawn[k];
        const used = now.factors.indexOf(name);
        g.style.opacity = used < 0 ? 0.45 : 1;
        const along = ways[name] === "along";
        cells.forEach((row, r) => row.forEach((each, c) => {
          const odd = along ? (r + Math.floor(c / data.block)) % 2 : (c + Math.floor(r / data.block)) % 2;
          set(each, { class: `blue-band${odd ? " odd" : ""}` });
        }));
        const [high, wide] = [cells.length * cell, cells[0].length * cell];
        const lines = along ? [cell, cell * data.block] : [cell * data.block, cell];
        let d = "";
        for (let y = 0; y <= high + 1; y += lines[0]) d += `M0,${y}h${wide}`;
        for (let across = 0; across <= wide + 1; across += lines[1]) d += `M${across},0v${high}`;
        set(borders, { d });
        set(marks, { d: used < 0 ? "" : now.terms.map((term) => `M${term[used][1] * cell + 2.5},${term[used][0] * cell + 2.5}h${cell - 5}v${cell - 5}h${5 - cell}z`).join("") });
      });
    };
  },

  tell({ factors, terms, summed, pairs, legal, at, axes }, { product }, data) {
    const name = `<b class="orange">${product}[${at[axes[0]]}, ${at[axes[1]]}]</b>`;
    const sum = `${name} is a sum of ${terms.length} terms, over the ${summed} of ${factors[0]} and ${factors[1]}.`;
    if (legal) return `${sum} ${pairs === 1 ? "One pair of scales belongs to all of them" : `Only <b class="blue">${pairs} pairs of scales</b> meet in it`}, one for each ${data.block} terms. So the scales are multiplied once a block: <b>it works</b>.`;
    return `${sum} <b class="blue">${pairs} pairs of scales</b> meet in it, so each term must be multiplied by scales of its own.`;
  },

  controls(stage) {
    for (const product of Object.keys(stage.data.products)) stage.button(product, () => ({ product }), { pressed: (now, state) => state.product === product });
    for (const name of Object.keys(stage.data.matrices)) {
      stage.button(`Turn ${name}`, (now, { ways }) => ({ ways: { ...ways, [name]: ways[name] === "down" ? "along" : "down" } }), { off: ({ factors }) => !factors.includes(name) });
    }
  },
});
