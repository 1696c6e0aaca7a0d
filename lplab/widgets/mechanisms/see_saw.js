// Lab 15: for each channel a see-saw from its largest input to its largest weight. Alpha tilts them all; the products stay.

const [TOP, BOTTOM] = [52, 188]; // of the see-saws
const [HIGH, FOOT] = [218, 286]; // of the error
const SIDE = 88; // pixels from the edge to an end of the see-saws

export default mechanism({
  start: () => ({ place: 4, tried: {} }),

  look(data, { place }) {
    const { factor, inputs, weights, inputs_median: input, weights_median: weight } = data.places[place];
    return {
      alpha: place / (data.places.length - 1), factor, inputs, weights,
      ratios: [inputs[0] / input, weights[0] / weight], // of the channel that stands out to the median channel
      medians: [input, weight],
      error: data.errors[place],
      isBest: data.errors[place] === Math.min(...data.errors),
    };
  },

  height: () => 304,

  draw(stage) {
    const { svg, width, data } = stage;
    const last = data.places.length - 1;
    const ends = data.places.flatMap(({ inputs, weights }) => [...inputs, ...weights]);
    const log = scale([Math.log(Math.min(...ends)), Math.log(Math.max(...ends))], [BOTTOM, TOP]);
    const y = (size) => log(Math.log(size));
    const [left, right] = [SIDE, width - SIDE];
    ["inputs", "weights"].forEach((name, k) => add(svg, "text", { class: `lp-strong${k ? " lp-end" : ""}`, x: k ? width - 2 : 2, y: 13 }, `largest ${name}`));
    const texts = [0, 1].map((k) => add(svg, "text", { class: `lp-small${k ? " lp-end" : ""}`, x: k ? width - 2 : 2, y: 30 }));
    for (const x of [left, right]) add(svg, "path", { class: "tick", d: `M${x},${TOP - 6}V${BOTTOM + 6}` });
    const bands = [left, right].map((x) => add(svg, "rect", { class: "lost-band", x: x - 6, width: 12 }));
    const beams = data.places[0].inputs.map((_, k) => add(svg, "path", { class: k ? "axis faint" : "blue-line", "stroke-width": k ? 1.2 : 4 }));
    svg.append(beams[0]); // on top
    const pivot = [(left + right) / 2, y(Math.sqrt(data.product))];
    add(svg, "path", { class: "green-fill", d: `M${pivot[0]},${pivot[1] + 2}l9,16h-18z` });
    add(svg, "text", { class: "lp-small lp-middle", x: pivot[0], y: TOP - 8 }, `product ${short(data.product, 3)}`); // no beam comes there
    const values = add(svg, "text", { class: "lp-strong lp-halo", x: right + 10 });
    const x = scale([0, 1], [SIDE, width - 14]);
    const most = 1.1 * Math.max(...data.errors);
    const tall = scale([0, most], [FOOT, HIGH]);
    add(svg, "path", { class: "axis", d: `M${x(0)},${FOOT}H${x(1)}` });
    for (const alpha of [0, 0.5, 1]) add(svg, "text", { class: "lp-small lp-middle", x: x(alpha), y: FOOT + 15 }, alpha ? alpha : "α = 0");
    ["error of", "the output"].forEach((text, k) => add(svg, "text", { class: "lp-small", x: 2, y: HIGH + 28 + 15 * k }, text));
    add(svg, "path", { class: "axis dashed", d: `M${x(0)},${tall(data.unsmoothed)}H${x(1)}` });
    add(svg, "text", { class: "lp-small lp-end", x: x(1), y: HIGH - 9 }, `dashed: not smoothed, ${percent(data.unsmoothed)}`);
    const dots = add(svg, "g");
    const dot = add(svg, "circle", { class: "orange-fill", r: 6 });
    const sum = add(svg, "text", { class: "lp-strong lp-halo" });
    let label;
    stage.handle({
      name: "alpha",
      range: () => [0, last],
      value: (now, { place }) => place,
      text: ({ alpha, error }) => `${alpha}, error ${percent(error)}`,
      point: ({ inputs }) => [left - 44, y(inputs[0])],
      drag: (px, py) => (last * (py - y(data.product))) / (y(1) - y(data.product)), // the product to the power 1 − α
      set: (place) => ({ place }),
      shape: (g) => (label = pill(g, 84, true)),
      upright: true,
      page: 5,
      surface: (px, py) => px < left && py > TOP - 10 && py < BOTTOM,
    });
    return (now, { place, tried }) => {
      label.textContent = `α ${now.alpha}`;
      beams.forEach((beam, k) => set(beam, { d: `M${left},${y(now.inputs[k])}L${right},${y(now.weights[k])}` }));
      bands.forEach((band, k) => {
        const [high, low] = [[now.inputs, now.weights][k][0], now.medians[k]].map(y);
        set(band, { y: Math.min(high, low), height: Math.max(Math.abs(low - high), 2) });
      });
      texts.forEach((text, k) => set(text, {}, `${short(now.ratios[k], 2)} × the median`));
      set(values, { y: y(now.weights[0]) + 5 }, short(now.weights[0], 3));
      tried[place] = now.error;
      dots.replaceChildren();
      for (const [each, error] of Object.entries(tried)) add(dots, "circle", { class: "grey-fill", cx: x(each / last), cy: tall(error), r: 3 });
      set(dot, { cx: x(now.alpha), cy: tall(now.error) });
      const over = now.alpha > 0.8;
      set(sum, { x: x(now.alpha) + (over ? -11 : 11), y: tall(now.error) + 5, class: `lp-strong lp-halo${over ? " lp-end" : ""}` }, percent(now.error));
    };
  },

  tell({ alpha, factor, inputs, weights, error, isBest }, state, data) {
    const [x, w] = data.before;
    const by = short(factor < 1 ? 1 / factor : factor, 3);
    const ways = factor < 1 ? ["multiplied", "divided"] : ["divided", "multiplied"];
    const moved = `With α = <b class="orange">${alpha}</b> the inputs of channel ${data.channel} are ${ways[0]} by ${by} and its weights ${ways[1]}:`;
    const sizes = `${short(x, 3)}\u00a0→\u00a0${short(inputs[0], 3)} and ${short(w, 3)}\u00a0→\u00a0${short(weights[0], 3)}. <b class="green">The product stays.</b>`;
    const cost = `In 8 bits the layer's output is <b class="blue">${percent(error)}</b> off.${isBest ? " <b>No α here does better.</b>" : ""}`;
    return `${moved} ${sizes} ${cost}`;
  },

  controls(stage) {
    stage.button("α = 0: even weights", () => ({ place: 0 }), { pressed: (now, { place }) => place === 0 });
    stage.button("α = 1: even inputs", () => ({ place: stage.data.places.length - 1 }), { pressed: (now, { place }) => place === stage.data.places.length - 1 });
  },
});
