// Lab 16: four learners take steps of their own on a loss surface, and meet. The outer step may go beyond their mean.

const MAP = { top: 6, bottom: 186, widest: 300, tall: 158 }; // pixels, and at most so many for a unit of the map
const [POST, BARS, FOOT] = [208, 228, 246];
const RAIL = 292;
const [WEST, EAST, NORTH] = [-1.75, 0.65, 0.58]; // the part of the map that is shown

export default mechanism({
  start: () => ({ every: 3, momentum: 6, beat: 4 }),

  look(data, { every: h, momentum, beat }) {
    const [every, run] = [data.every[h], data.runs[h][momentum]];
    const [round, within] = [Math.floor(beat / (every + 1)), beat % (every + 1)];
    const met = round > 0 && !within;
    const begun = met ? round - 1 : round; // the round whose paths are shown
    const taken = met ? every : within;
    const at = ([x, y]) => [x / data.unit, y / data.unit];
    const [from, to] = [begun, round].map((k) => at(run.shared[k]));
    const paths = run.learners.map((path) => [from, ...path.slice(begun * every, begun * every + taken).map(at)]);
    const ends = paths.map((path) => path.at(-1));
    const mean = [0, 1].map((k) => ends.reduce((sum, end) => sum + end[k], 0) / ends.length);
    return {
      every, momentum: data.momenta[momentum], round, within, met, paths, mean, from, to,
      apart: Math.max(...ends.map((end) => distance(end, mean))),
      ratio: met ? distance(from, to) / distance(from, mean) : null,
      steps: begun * every + taken,
      loss: run.losses[round],
      sent: round * data.bytes,
      rate: data.bytes / every,
      end: round * every === data.steps,
    };
  },

  height: () => 312,

  draw(stage) {
    const { svg, width, data } = stage;
    const wide = Math.min((width - 8) / (EAST - WEST), MAP.widest);
    const middle = (width - wide * (EAST - WEST)) / 2;
    const x = (value) => middle + (value - WEST) * wide;
    const y = (value) => MAP.top + (NORTH - value) * MAP.tall;
    const line = (points) => `M${points.map(([px, py]) => `${x(px)},${y(py)}`).join("L")}`;
    add(svg, "path", { class: "tick faint", d: data.contours.map(([a, b]) => ellipse(x, y, a, b, width)).join("") });
    add(svg, "path", { class: "green-line", "stroke-width": 3, d: `M${x(0) - 6},${y(0)}h12m-6,-6v12` });
    const before = add(svg, "path", { class: "blue-line dashed", "stroke-width": 2 });
    const leashes = add(svg, "path", { class: "axis dashed faint" });
    const trails = add(svg, "path", { class: "axis", "stroke-width": 1.5 });
    const ends = data.runs[0][0].learners.map(() => add(svg, "circle", { class: "lp-dark", r: 4.5 }));
    const arrow = add(svg, "path", { class: "orange-line", "stroke-width": 3.5 });
    const mean = add(svg, "circle", { class: "lp-tip", r: 5.5 });
    const shared = add(svg, "circle", { class: "blue-fill", r: 7, stroke: "var(--lp-ground)", "stroke-width": 2 });
    const loss = add(svg, "text", { class: "lp-strong lp-halo", x: 2, y: 164 });
    add(svg, "text", { class: "lp-small lp-halo", x: 2, y: 181 }, `lowest ${data.lowest}, at the cross`);

    const time = scale([0, data.steps], [18, width - 18]);
    add(svg, "path", { class: "axis", d: `M${time(0)},${FOOT}H${time(data.steps)}` });
    const bars = add(svg, "g");
    const clock = add(svg, "path", { class: "lp-dark", d: "M0,0l6,9h-12z" });
    const stem = add(svg, "path", { class: "orange-line", "stroke-width": 3 });
    const price = add(svg, "text", { class: "lp-small lp-middle", x: width / 2, y: FOOT + 22 });
    let label, outer;
    stage.handle({
      name: "steps of a round",
      range: () => [0, data.every.length - 1],
      value: (now, { every }) => every,
      text: ({ every, rate }) => `${steps(every)}, ${short(rate)} bytes a step`,
      point: ({ every }) => [time(every), POST],
      drag: (px) => Math.log2(Math.max(time.inverse(px), 1)),
      set: (every) => ({ every, beat: beatOf(data.every[every], stage.now.steps) }),
      shape: (g) => (label = pill(add(g, "g"), 140)),
      page: 2,
      surface: (px, py) => py > MAP.bottom && py < FOOT + 10,
    });
    add(svg, "text", { class: "lp-small", x: 2, y: RAIL + 4 }, "outer momentum");
    const last = data.momenta.length - 1;
    const rail = scale([0, last], [150, width - 36]);
    add(svg, "path", { class: "axis", d: `M${rail(0)},${RAIL}H${rail(last)}` });
    stage.handle({
      name: "outer momentum",
      range: () => [0, last],
      value: (now, { momentum }) => momentum,
      text: ({ momentum }) => String(momentum),
      point: (now, { momentum }) => [rail(momentum), RAIL],
      drag: (px) => rail.inverse(px),
      set: (momentum) => ({ momentum }),
      shape: (g) => (outer = pill(g, 66)),
      page: 2,
      surface: (px, py) => py > RAIL - 20 && px > rail(0) - 30,
    });
    return (now, state) => {
      const run = data.runs[state.every][state.momentum];
      const visited = run.shared.slice(0, now.round + 1).map(([px, py]) => [px / data.unit, py / data.unit]);
      set(before, { d: line(visited) });
      set(trails, { d: now.paths.map(line).join("") });
      set(leashes, { d: now.met ? "" : now.paths.map((path) => line([now.from, path.at(-1)])).join("") });
      ends.forEach((end, k) => set(end, { cx: x(now.paths[k].at(-1)[0]), cy: y(now.paths[k].at(-1)[1]) }));
      set(mean, { cx: x(now.mean[0]), cy: y(now.mean[1]) });
      mean.style.display = now.met || now.within ? "" : "none"; // the sentence speaks of it at each step
      set(arrow, { d: now.met ? arrowTo([x(now.from[0]), y(now.from[1])], [x(now.to[0]), y(now.to[1])]) : "" });
      set(shared, { cx: x(now.to[0]), cy: y(now.to[1]) });
      set(loss, {}, `loss ${now.loss.toFixed(2)}`);
      const wideBar = Math.min(10, (time(1) - time(0)) * 0.7);
      bars.replaceChildren();
      for (let step = now.every; step <= data.steps; step += now.every) {
        add(bars, "rect", { class: step <= now.round * now.every ? "blue-fill" : "lp-outline", x: time(step) - wideBar / 2, y: BARS, width: wideBar, height: FOOT - BARS });
      }
      set(clock, { transform: `translate(${time(now.steps)},${FOOT + 1})` });
      label.textContent = now.every > 1 ? `every ${now.every} steps` : "every step";
      set(label.parentElement, { transform: `translate(${clamp(time(now.every), 72, width - 72) - time(now.every)})` });
      set(stem, { d: `M${time(now.every)},${POST + 12}V${FOOT}` });
      set(price, {}, `${data.bytes} bytes at each meeting: ${short(now.rate)} a step`);
      outer.textContent = now.momentum;
    };
  },

  tell(now, state, data) {
    const { every, momentum, round, within, met, apart, ratio, loss, sent, rate, end } = now;
    if (end) return `After ${data.steps} steps and <b>${round} ${round > 1 ? "meetings" : "meeting"}</b> the loss is <b class="blue">${loss.toFixed(2)}</b>; the lowest is ${data.lowest}. A learner has sent ${sent} bytes, ${short(rate)} a step. The outer momentum was <b class="orange">${momentum}</b>.`;
    if (met) return `They have met, and each has sent ${data.bytes} bytes. With a rate of ${data.rate} and a momentum of ${momentum}, the <b class="orange">outer step</b> is <b>${ratio.toFixed(2)} times</b> as long as the way to their mean, the open circle. The shared weights now have a loss of <b class="blue">${loss.toFixed(2)}</b>.`;
    if (!within) return `Four learners begin at the same weights, the <b class="blue">blue point</b> with a loss of ${loss.toFixed(2)}. Each has digits of its own. They will meet after ${every > 1 ? `${every} steps` : "each step"}.`;
    return `Each learner has taken <b>${within} of ${every} ${every > 1 ? "steps" : "step"}</b> of round ${round + 1} with digits of its own. Meanwhile nothing is sent. The farthest is ${apart.toFixed(2)} from their mean, the open circle.`;
  },

  controls(stage) {
    stage.steps((by, now, { beat }) => (beat + by < 0 || (by > 0 && now.end) ? undefined : { beat: beat + by }), { pause: 220 });
    stage.button("To the end", ({ every }) => ({ beat: beatOf(every, stage.data.steps) }), { off: ({ end }) => end });
    stage.button("Again", () => ({ beat: 0 }), { off: (now, { beat }) => beat === 0 });
  },
});

const distance = ([a, b], [c, d]) => Math.hypot(a - c, b - d);
const steps = (count) => `${count} ${count > 1 ? "steps" : "step"}`;

/** The beat after so many steps: each step is one, and each meeting. */
function beatOf(every, taken) {
  return Math.floor(taken / every) * (every + 1) + (taken % every);
}

/** The part of an ellipse around 0, 0 that lies on the map. */
function ellipse(x, y, a, b, width) {
  let d = "";
  for (let k = 0, inside = false; k <= 180; k += 1) {
    const [px, py] = [x(a * Math.cos((k * Math.PI) / 90)), y(b * Math.sin((k * Math.PI) / 90))];
    const on = px > 0 && px < width && py > 0 && py < MAP.bottom;
    if (on) d += `${inside ? "L" : "M"}${px},${py}`;
    inside = on;
  }
  return d;
}

/** An arrow that ends at the rim of a point; without a head if it is short. */
function arrowTo([x, y], [u, v]) {
  const length = Math.hypot(u - x, v - y);
  if (length < 22) return `M${x},${y}L${u},${v}`;
  const [dx, dy] = [(u - x) / length, (v - y) / length];
  const [tx, ty] = [u - 9 * dx, v - 9 * dy];
  return `M${x},${y}L${tx},${ty}M${tx - 8 * dx - 5 * dy},${ty - 8 * dy + 5 * dx}L${tx},${ty}L${tx - 8 * dx + 5 * dy},${ty - 8 * dy - 5 * dx}`;
}
