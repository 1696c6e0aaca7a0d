// Lab 05: ones are added one by one in a register with four significant bits. It stops; in chunks it does not.

const [ONES, PART, TOTAL, TRIED] = [42, 104, 174, 254]; // where the ones, the two registers and the results lie
const [HIGH, EDGE] = [18, 22];

export default mechanism({
  start: (data) => ({ chunk: 1, step: data.start, tried: {} }),

  look(data, { chunk, step }) {
    const sums = data.sums[chunk - 1];
    const [added, part, total] = sums[step];
    const now = { chunk, added, part, total, end: step === sums.length - 1 };
    if (now.end) return now;
    const [then, partThen, totalThen] = sums[step + 1];
    const inTotal = chunk === 1 || then === added;
    const [from, to, addend] = inTotal ? [total, totalThen, chunk === 1 ? 1 : part] : [part, partThen, 1];
    return { ...now, inTotal, from, to, addend, above: from && data.numbers.find((number) => number > from) };
  },

  height: () => 312,

  draw(stage) {
    const { svg, width, data } = stage;
    const at = scale([0, data.count], [EDGE, width - EDGE]);
    const ones = Array.from({ length: data.count }, (_, k) =>
      add(svg, "rect", { x: at(k) + 0.5, y: ONES, width: at(1) - at(0) - 1, height: HIGH, rx: 1.5, class: "lp-one" }));
    const cuts = add(svg, "path", { class: "axis dashed" });
    const cut = add(svg, "path", { class: "orange-line", "stroke-width": 2.5 });
    const count = add(svg, "text", { class: "lp-small lp-end", x: width - EDGE, y: ONES + HIGH + 16 });
    const registers = [drawRegister(svg, at, PART, data), drawRegister(svg, at, TOTAL, data)];
    const truth = add(svg, "g", { class: "lp-glide" });
    add(truth, "path", { class: "green-fill", d: "M0,0l6,10h-12z" });
    const truthText = add(truth, "text", { class: "lp-small", y: 11 });
    const results = add(svg, "g");
    let label;
    stage.handle({
      name: "length of the chunks",
      range: () => [1, data.count],
      value: ({ chunk }) => chunk,
      text: ({ chunk }) => (chunk === 1 ? "no chunks" : `chunks of ${chunk}`),
      point: ({ chunk }) => [at(chunk), 18],
      drag: (x) => at.inverse(x),
      set: (chunk) => moved(stage, chunk),
      shape: (g) => (label = pill(add(g, "g"), 112)),
      page: 8,
      surface: (x, y) => y < ONES + HIGH + 4,
    });
    return (now, state) => {
      const { chunk, added, part, total, end } = now;
      label.textContent = chunk === 1 ? "no chunks" : `chunk ${chunk}`;
      set(label.parentElement, { transform: `translate(${clamp(at(chunk), 60, width - 60) - at(chunk)})` });
      ones.forEach((one, k) => {
        one.classList.toggle("done", k < added);
        one.classList.toggle("next", k === added && !end && (chunk === 1 || !now.inTotal));
      });
      const ends = Array.from({ length: Math.ceil(data.count / chunk) - 1 }, (_, k) => at((k + 1) * chunk));
      set(cuts, { d: chunk === 1 ? "" : ends.slice(1).map((x) => `M${x},${ONES - 4}v${HIGH + 8}`).join("") });
      set(cut, { d: `M${at(chunk)},30V${ONES + HIGH + 4}` });
      set(count, {}, `${added} of ${data.count} ones added`);
      registers[0].show(chunk === 1 ? "no register for chunks" : "register of the chunk", part, end || now.inTotal ? undefined : now, chunk === 1);
      registers[1].show("total", total, now.inTotal ? now : undefined);
      place(truth, at(added), TOTAL + HIGH + 24);
      const right = at(added) > width / 2;
      set(truthText, { x: right ? -10 : 10, class: right ? "lp-small lp-end" : "lp-small" }, `true sum ${added}`);
      if (end) state.tried[chunk] = total;
      drawTried(results, at, width, state.tried, now);
    };
  },

  tell({ chunk, added, total, end, inTotal, from, to, addend, above }, state, data) {
    if (end) {
      const tried = Object.keys(state.tried).length;
      const lost = total === added ? "<b>Nothing is lost.</b>" : `<b>${added - total} are lost.</b>`;
      const more = tried < 3 ? " Change the length of the <b class=\"orange\">chunk</b>, and see what the total becomes." : "";
      return `All ${added} ones are added${chunk === 1 ? ", one by one" : ` in chunks of ${chunk}`}, and the total is ` +
        `<b class="blue">${total}</b>. ${lost}${more}`;
    }
    const name = chunk === 1 ? "The register" : inTotal ? "The total" : "The register of the chunk";
    const holds = `${name} holds <b class="blue">${from}</b>. Adding <b class="orange">${addend}</b> gives ${from + addend}`;
    if (to === from + addend) return `${holds}, a number that it can hold.`;
    const stays = to === from ? `so it <b>stays at ${from}</b>` : `so it becomes <b>${to}</b>`;
    if (to === from && from + addend < above) {
      const where = 2 * addend === above - from ? "exactly half of a step" : "less than half of a step";
      const rule = 2 * addend === above - from ? " The tie goes to the even neighbour," : " It is rounded down,";
      return `${holds}. The next number that it has is ${above}, so this is ${where}.${rule} ${stays}.`;
    }
    return `${holds}. The register does not have this number, ${stays}.`;
  },

  controls(stage) {
    const last = ({ chunk }) => stage.data.sums[chunk - 1].length - 1;
    stage.steps((by, now, state) => {
      const step = state.step + by;
      return step < 0 || step > last(state) ? undefined : { step };
    }, { pause: 350 });
    stage.button("To the end", (now, state) => ({ step: last(state) }), { off: (now) => now.end });
    stage.button("Empty", () => ({ step: 0 }), { off: (now, { step }) => step === 0 });
  },
});

/** Another length of the chunks: as many ones are added as before. */
function moved({ data, now }, chunk) {
  const sums = data.sums[chunk - 1];
  return { chunk, step: sums.findLastIndex(([added]) => added === now.added) };
}

/** A register: a bar over the numbers that it has, and, where it comes next, what is added beside half a step. */
function drawRegister(svg, at, y, data) {
  const g = add(svg, "g");
  const name = add(g, "text", { class: "lp-small", x: EDGE, y: y - 6 });
  add(g, "rect", { class: "lp-trough", x: at(0), y, width: at(data.count) - at(0), height: HIGH });
  const bar = add(g, "rect", { class: "blue-fill lp-glide", width: at(1) - at(0), height: HIGH });
  const ticks = data.numbers.filter((number) => number <= data.count && Number.isInteger(number));
  add(g, "path", { class: "tick", d: ticks.map((number) => `M${at(number)},${y + HIGH}v7`).join("") });
  for (const number of [0, 8, 16, 32, 64]) add(g, "text", { class: "lp-small lp-middle", x: at(number), y: y + HIGH + 19 }, number);
  const next = add(g, "rect", { class: "lp-next", y: y + 2, height: HIGH - 4, rx: 2 });
  const half = add(g, "path", { class: "axis", "stroke-width": 2 });
  const halfText = add(g, "text", { y: y + 13 });
  const value = add(g, "text", { class: "lp-strong lp-end", y: y - 6, x: at(data.count) });
  return {
    show(title, held, now, unused = false) {
      set(name, {}, title);
      g.style.opacity = unused ? 0.5 : 1;
      bar.style.transform = `translate(${at(0)}px, ${y}px) scaleX(${held})`;
      set(value, {}, unused ? "" : held);
      next.style.display = now ? "" : "none";
      for (const each of [half, halfText]) each.style.display = now?.from ? "" : "none"; // at 0 every number moves it
      if (!now) return;
      const [from, middle] = [at(now.from), at((now.from + now.above) / 2)];
      set(next, { x: from, width: at(now.from + now.addend) - from });
      next.classList.toggle("lost", now.to === now.from);
      set(half, { d: `M${middle},${y - 3}V${y + HIGH + 7}` });
      const right = Math.max(middle, at(now.from + now.addend)) + 6;
      const fits = right < at(data.count) - 70;
      set(halfText, { x: fits ? right : from - 6, class: fits ? "lp-small" : "lp-small lp-end lp-on-colour" }, "half a step");
    },
  };
}

/** The totals of all lengths that were tried, each below its length. */
function drawTried(g, at, width, tried, { chunk, end }) {
  g.replaceChildren();
  const count = 64;
  const y = scale([0, count], [TRIED + 52, TRIED + 6]);
  add(g, "path", { class: "axis", d: `M${at(0)},${y(0)}H${at(count)}` });
  add(g, "path", { class: "green-line dashed", "stroke-width": 2, d: `M${at(0)},${y(count)}H${at(count)}` });
  add(g, "text", { class: "lp-small", x: at(0), y: TRIED - 2 }, "final totals of the chunks you tried");
  for (const [length, total] of Object.entries(tried)) {
    const own = end && Number(length) === chunk;
    add(g, "circle", { class: own ? "orange-fill" : "blue-fill", cx: at(length), cy: y(total), r: own ? 6 : 4.5 });
  }
}
