// Lab 02: weights lie on a grid, and get updates smaller than a step. Nearest does not move for less than half a step; the mean of many coins is right.

const [TOP, BOTTOM, LEFT, RIGHT] = [22, 268, 34, 112];
const LEVELS = 22; // steps of the grid that are drawn
const LEGEND = [
  ["green-line dashed", 2.5, "true sum"],
  ["blue-line", 3.5, "mean of 20 weights with a coin"],
  ["blue-line faint", 1.5, "each of the 20"],
  ["orange-line", 3, "rounded to nearest"],
];

export default mechanism({
  start: (data) => ({ size: data.start, step: 12 }),

  look(data, { size, step }) {
    const { nearest, coins, mean } = data.walks[size];
    const moved = coins.filter((walk) => walk[step] > 0).length;
    return { update: data.updates[size], step, nearest: nearest[step], coins: coins.map((walk) => walk[step]), mean: mean[step], moved };
  },

  height: () => 304,

  draw(stage) {
    const { svg, width, data } = stage;
    const x = scale([0, data.count], [LEFT, width - RIGHT]);
    const y = scale([0, LEVELS], [BOTTOM, TOP]);
    const grid = Array.from({ length: LEVELS + 1 }, (_, k) => `M${LEFT},${y(k)}H${x(data.count)}`).join("");
    add(svg, "path", { class: "grid", d: grid });
    for (const level of [0, 5, 10, 15, 20]) add(svg, "text", { class: "lp-small lp-end", x: LEFT - 6, y: y(level) + 4 }, level);
    add(svg, "text", { class: "lp-small", x: 2, y: 12 }, "steps that a weight has moved");
    for (const k of [0, 10, 20, 30]) add(svg, "text", { class: "lp-small lp-middle", x: x(k), y: BOTTOM + 18 }, k);
    add(svg, "text", { class: "lp-small lp-middle", x: x(data.count / 2), y: BOTTOM + 33 }, "updates");
    const clip = add(add(svg, "clipPath", { id: `lp-coins-${width}` }), "rect", { x: 0, y: TOP - 6, width, height: BOTTOM - TOP + 12 });
    const inside = add(svg, "g", { "clip-path": `url(#${clip.parentElement.id})` });
    const truth = add(inside, "path", { class: "green-line dashed", "stroke-width": 2.5 });
    const walks = Array.from({ length: 20 }, () => add(inside, "path", { class: "blue-line faint" }));
    const nearest = add(inside, "path", { class: "orange-line", "stroke-width": 3 });
    const mean = add(inside, "path", { class: "blue-line", "stroke-width": 3.5 });
    const beads = add(inside, "g");
    // the chart's upper left corner stays empty: no sum gets there so early
    LEGEND.forEach(([kind, stroke, text], k) => {
      const at = TOP + 16 + 18 * k;
      add(svg, "path", { class: kind, "stroke-width": stroke, d: `M${LEFT + 8},${at}h22` });
      add(svg, "text", { class: "lp-small lp-halo", x: LEFT + 36, y: at + 4 }, text);
    });
    let label;
    stage.handle({
      name: "size of the updates",
      upright: true,
      range: () => [0, data.updates.length - 1],
      value: (now, { size }) => size,
      text: ({ update }) => `${update} of a step`,
      point: ({ update }) => [width - RIGHT / 2 + 6, y(update * data.count)],
      drag: (px, py) => y.inverse(py) / data.count / data.updates[0] - 1,
      set: (size) => ({ size }),
      shape: (g) => (label = pill(g, 92, true)),
      page: 3,
      surface: (px) => px > width - RIGHT + 6,
    });
    return (now, { size, step }) => {
      const { update } = now;
      const { coins, mean: means, nearest: stays } = data.walks[size];
      label.textContent = `${update} step`;
      set(truth, { d: `M${x(0)},${y(0)}L${x(data.count)},${y(update * data.count)}H${width - RIGHT + 10}` });
      coins.forEach((walk, k) => set(walks[k], { d: staircase(x, y, walk, step) }));
      set(nearest, { d: staircase(x, y, stays, step) });
      set(mean, { d: `M${means.slice(0, step + 1).map((value, k) => `${x(k)},${y(value)}`).join("L")}` });
      drawBeads(beads, x(step), y, now);
    };
  },

  tell({ update, step, nearest, mean, moved }) {
    const sum = short(update * step);
    if (!step) return `Each update is <b class="orange">${update} of a step</b>. Nothing has been added yet.`;
    const stays = nearest ? `Rounded to nearest, each update becomes a whole step, and the weight is at <b>${nearest}</b>.`
      : "Rounded to nearest, each update is lost, and the weight <b>has not moved</b>.";
    return `${step} ${step === 1 ? "update" : "updates"} of <b class="orange">${update} of a step</b> make <b class="green">${sum}</b> ${sum === "1" ? "step" : "steps"}. ${stays} ` +
      `With a coin (rounded up or down by chance), ${moved} of 20 weights have moved, and on average they are at <b class="blue">${short(mean)}</b>.`;
  },

  controls(stage) {
    stage.steps((by, now, { step }) => {
      const to = step + by;
      return to < 0 || to > stage.data.count ? undefined : { step: to };
    }, { pause: 250 });
    stage.button("From the start", () => ({ step: 0 }), { off: (now, { step }) => step === 0 });
  },
});

/** A walk that stays on a level until the next update. */
function staircase(x, y, walk, step) {
  let d = `M${x(0)},${y(walk[0])}`;
  for (let k = 1; k <= step; k += 1) d += `H${x(k)}V${y(walk[k])}`;
  return d;
}

/** Where the weights are now: those on one level side by side. */
function drawBeads(g, at, y, { coins, nearest, mean }) {
  g.replaceChildren();
  const levels = new Map();
  for (const level of coins) levels.set(level, (levels.get(level) ?? 0) + 1);
  for (const [level, count] of levels) {
    for (let k = 0; k < count; k += 1) add(g, "circle", { class: "blue-fill", cx: at - 5 * (count - 1 - k), cy: y(level), r: 3.2, "fill-opacity": 0.75 });
  }
  add(g, "rect", { class: "orange-fill", x: at - 5, y: y(nearest) - 5, width: 10, height: 10 });
  add(g, "circle", { class: "blue-fill", cx: at, cy: y(mean), r: 6.5, stroke: "var(--lp-ground)", "stroke-width": 2 });
}
