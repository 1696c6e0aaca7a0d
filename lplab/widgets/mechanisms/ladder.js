// Lab 07: a gradient between the rungs of two ladders. Each phase is far off, often in different directions, so the mean is nearer.

const [EVEN, ODD] = [66, 112]; // the two ladders
const [TOP, FOOT] = [172, 286]; // of the errors: +70 % and −70 %
const [LEFT, RIGHT] = [54, 30];
const MOST = 0.7;
const signed = (error) => `${error < 0 ? "−" : "+"}${percent(Math.abs(error))}`;

export default mechanism({
  start: (data) => ({ place: data.start, tried: [] }),

  look(data, { place }) {
    const at = place - data.first;
    const [size, even, odd] = [data.sizes[at], data.even[at], data.odd[at]];
    const mean = (even + odd) / 2;
    return { size, even, odd, mean, errors: [even, odd, mean].map((value) => value / size - 1) };
  },

  height: () => 300,

  draw(stage) {
    const { svg, width, data } = stage;
    const last = data.first + data.sizes.length - 1;
    const x = scale([data.first / data.parts, last / data.parts], [LEFT, width - RIGHT]);
    const y = scale([-MOST, MOST], [FOOT, TOP]);
    const shown = ([exponent]) => x(exponent) > LEFT - 12 && x(exponent) < width - RIGHT + 12;
    for (const [name, at] of [["even", EVEN], ["odd", ODD]]) {
      add(svg, "path", { class: "axis", d: `M${LEFT},${at}H${width - RIGHT}` });
      add(svg, "text", { class: "lp-strong", x: 2, y: at + 4 }, name);
      for (const [exponent, text] of data.rungs[name].filter(shown)) {
        add(svg, "path", { class: "tick", "stroke-width": 3, d: `M${x(exponent)},${at - 9}v18` });
        add(svg, "text", { class: "lp-small lp-middle", x: x(exponent), y: at + 23 }, text);
      }
    }
    add(svg, "path", { class: "axis", d: `M${LEFT},${y(0)}H${width - RIGHT}` });
    for (const error of [-0.5, 0, 0.5]) {
      if (error) add(svg, "path", { class: "grid", d: `M${LEFT},${y(error)}H${width - RIGHT}` });
      add(svg, "text", { class: "lp-small lp-end", x: LEFT - 6, y: y(error) + 4 }, error ? signed(error) : "0");
    }
    LEGEND.forEach(([kind, text], k) => {
      const at = LEFT + [0, 62, 116][k];
      mark(svg, kind, at + 5, TOP - 16, 4.5);
      add(svg, "text", { class: "lp-small", x: at + 14, y: TOP - 12 }, text);
    });
    const trail = add(svg, "g");
    const stem = add(svg, "path", { class: "orange-line dashed", "stroke-width": 1.5 });
    const jumps = ["blue-line", "orange-line"].map((kind) => add(svg, "path", { class: kind, "stroke-width": 2.5 }));
    const dots = add(svg, "g");
    let label;
    stage.handle({
      name: "gradient",
      range: () => [data.first, last],
      value: (now, { place }) => place,
      text: ({ size, even, odd }) => `${short(size, 3)}, becomes ${even} and ${odd}`,
      point: ({ size }) => [x(Math.log2(size)), 20],
      drag: (px) => x.inverse(px) * data.parts,
      set: (place) => ({ place, tried: [...new Set([...stage.state.tried, place])] }),
      shape: (g) => (label = pill(add(g, "g"), 76)),
      page: data.parts,
      surface: () => true,
    });
    return (now, { place, tried }) => {
      const at = x(place / data.parts);
      label.textContent = short(now.size, 3);
      set(label.parentElement, { transform: `translate(${clamp(at, 40, width - 40) - at})` });
      set(stem, { d: `M${at},34V${FOOT}` });
      const [even, odd] = [now.even, now.odd].map((value) => x(Math.log2(value)));
      dots.replaceChildren();
      [[even, EVEN], [odd, ODD]].forEach(([to, height], k) => {
        set(jumps[k], { d: `M${at},${height}H${to}` });
        set(mark(dots, LEGEND[k][0], to, height, 8 - k), { stroke: "var(--lp-ground)", "stroke-width": 2 });
      });
      now.errors.forEach((error, k) => mark(dots, LEGEND[k][0], at, y(error), 6));
      trail.replaceChildren();
      for (const each of tried) {
        const old = stage.plan.look(data, { place: each });
        old.errors.forEach((error, k) => mark(trail, `${LEGEND[k][0]} lp-old`, x(each / data.parts), y(error), k === 2 ? 3.4 : 2.4));
      }
    };
  },

  tell({ size, even, odd, mean, errors }, { tried }, { average }) {
    const product = errors[0] * errors[1];
    const opposite = product < 0 ? "The two errors <b>partly cancel</b>" : product ? "Here both are off in the same direction" : "One of them is exact";
    const all = tried.length < 24 ? "" : ` Over all sizes, one phase is off by ${percent(average.one)} on average, and the mean by <b>${percent(average.both)}</b>.`;
    return `The even phase rounds ${short(size, 3)} to <b class="blue">${even}</b> (${signed(errors[0])}), and the odd phase to <b class="orange">${odd}</b> (${signed(errors[1])}). ` +
      `${opposite}, and their mean is ${short(mean, 3)} (<b class="green">${signed(errors[2])}</b>).${all}`;
  },
});

const LEGEND = [["blue-fill", "even"], ["orange-fill", "odd"], ["green-fill", "mean of both"]];

/** A circle for the even phase, a square for the odd one, a diamond for their mean. */
function mark(g, kind, x, y, r) {
  if (kind.startsWith("blue")) return add(g, "circle", { class: kind, cx: x, cy: y, r });
  const turned = kind.startsWith("green") ? `rotate(45 ${x} ${y})` : "";
  return add(g, "rect", { class: kind, x: x - r, y: y - r, width: 2 * r, height: 2 * r, transform: turned });
}
