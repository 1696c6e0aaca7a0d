// Lab 09: one bin of AdaComp in four beats. Bars are what is owed; an element whose |H| reaches the threshold is sent.

const [TOP, BOTTOM, EDGE] = [30, 262, 22]; // of the bars
const BEATS = ["add the gradient", "find the largest", "which elements pass?", "what stays"];

const signed = (value) => (value > 0 ? `+${short(value)}` : short(value));
const list = (names) => (names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

export default mechanism({
  start: (data) => ({ beat: 0, drags: [...data.start] }),

  look(data, { beat, drags }) {
    const step = beat < BEATS.length ? 0 : 1;
    const places = drags.map((units) => units - data.drags[0]);
    const first = data.steps[0][places[0]];
    const { total, boosted, sent, after } = step ? data.steps[1][places[0]][places[1]] : first;
    const owed = step ? first.after : total.map(() => 0);
    const gradient = data.gradients[step].map((units, k) => (k === data.held ? drags[step] : units));
    const all = Object.entries({ owed, gradient, total, boosted, sent, after });
    const numbers = Object.fromEntries(all.map(([name, units]) => [name, units.map((each) => each * data.unit)]));
    return { step, beat: beat % BEATS.length, largest: Math.max(...numbers.total.map(Math.abs)), ...numbers };
  },

  height: () => 314,

  draw(stage) {
    const { svg, width, data } = stage;
    const y = scale([-7, 7.75], [BOTTOM, TOP]);
    const room = 86; // for the handle, beside the bar of its element
    const apart = (width - 2 * EDGE - room) / 8;
    const x = (k) => EDGE + (k + 0.5) * apart + (k > data.held ? room : 0);
    const wide = Math.min(26, apart - 14);
    const title = add(svg, "text", { class: "lp-strong", x: 2, y: 14 });
    add(svg, "path", { class: "axis", d: `M${EDGE},${y(0)}H${width - EDGE}` });
    for (const value of [-4, 0, 4]) add(svg, "text", { class: "lp-small lp-end", x: EDGE - 4, y: y(value) + 4 }, short(value));
    const threshold = add(svg, "path", { class: "axis dashed", "stroke-width": 2 });
    const name = add(svg, "text", { class: "lp-small lp-end", x: width - 2 });
    const rows = add(svg, "text", { class: "lp-small", x: 2, y: BOTTOM + 50 });
    const columns = data.gradients[0].map((_, k) => drawElement(svg, x(k), wide, y, k));
    const thread = add(svg, "path", { class: "orange-line", "stroke-width": 1.5 });
    let label;
    stage.handle({
      name: "gradient of element 5",
      upright: true,
      range: () => data.drags,
      value: (now, { drags }) => drags[now.step],
      text: ({ gradient }) => `gradient ${short(gradient[data.held])}`,
      point: ({ total }) => [x(data.held) + wide / 2 + 48, y(total[data.held])],
      drag: (px, py, now) => (y.inverse(py) - now.owed[data.held]) / data.unit,
      set: (units) => ({ drags: stage.state.drags.map((old, k) => (k === stage.now.step ? units : old)) }),
      shape: (g) => (label = pill(g, 72, true)),
      page: 4,
    });
    return (now) => {
      const { step, beat, gradient, total, largest } = now;
      set(title, {}, `step ${step + 1}, beat ${beat + 1} of 4: ${BEATS[beat]}`);
      set(rows, {}, ["elements of the bin", "elements of the bin", "✓ passes, – waits", "what each element sends"][beat]);
      label.textContent = signed(gradient[data.held]);
      set(thread, { d: `M${x(data.held) + wide / 2},${y(total[data.held])}h14` });
      const shown = beat > 0;
      for (const each of [threshold, name]) each.style.display = shown ? "" : "none";
      set(threshold, { d: [largest, -largest].map((at) => `M${EDGE},${y(at)}H${width - EDGE}`).join("") });
      set(name, { y: y(largest) - 5 }, `threshold ${short(largest)}`);
      columns.forEach((show, k) => show(now, k === data.held));
    };
  },

  tell(now, state, data) {
    const { step, beat, owed, gradient, total, boosted, sent, after, largest } = now;
    const k = data.held;
    const own = `<b class="orange">element 5</b>`;
    const passing = sent.flatMap((value, place) => (value ? [place + 1] : []));
    const add = (a, b) => `${short(a)} ${b < 0 ? "−" : "+"} ${short(Math.abs(b))}`;
    if (beat === 0) {
      const debt = step ? "Each element still owes its residual r (blue)." : "Nothing is owed yet, so the residual r is 0.";
      return `${debt} The gradient g of this step is added: G = r + g. For ${own} this is ${add(owed[k], gradient[k])} = <b>${short(total[k])}</b>.`;
    }
    if (beat === 1) {
      const where = total.flatMap((value, place) => (Math.abs(value) === largest ? [place + 1] : []));
      return `The largest |G| of the bin is <b>${short(largest)}</b>, in ${where.length > 1 ? "elements" : "element"} ${list(where)}. It is the threshold of this bin, above and below 0.`;
    }
    if (beat === 2) {
      const how = `The gradient is added once more: H = G + g. An element passes if |H| reaches the threshold. For ${own}, H is ${add(total[k], gradient[k])} = <b>${short(boosted[k])}</b>`;
      if (sent[k]) return `${how}, and it passes${Math.abs(total[k]) < largest ? " although its G is smaller, because it is <b>growing</b>" : ""}.`;
      if (total[k] === 0) return `${how}. But its G is 0, so it has nothing to send.`;
      return `${how}. ${gradient[k] * total[k] < 0 ? "Its gradient points against G: what it owes <b>shrinks by itself</b>, and it waits" : "It does not reach the threshold, and waits"}.`;
    }
    const rest = `For ${own}, ${sent[k] ? add(total[k], -sent[k]) : `${short(total[k])} − 0`} = <b>${short(after[k])}</b> stays as the new residual.`;
    if (!passing.length) return `No element passes, so <b>the bin sends nothing</b>. ${rest} It is added to the next gradient.`;
    return `${passing.length > 1 ? "Elements" : "Element"} ${list(passing)} ${passing.length > 1 ? "send" : "sends"} ${short(largest)} with the sign of G, ` +
      `and the others send nothing. ${rest}${Math.abs(sent[k]) > Math.abs(total[k]) ? " It has sent too much, and the next gradients make up for it." : ""}`;
  },

  controls(stage) {
    stage.steps((by, now, { beat }) => {
      const next = beat + by;
      return next < 0 || next >= 2 * BEATS.length ? undefined : { beat: next };
    }, { forth: "Next beat", pause: 1600 });
  },
});

/** An element: what is owed, the gradient on top of it, once more as a dashed line, and what becomes of it. */
function drawElement(svg, x, wide, y, k) {
  const bar = add(svg, "rect", { class: "blue-fill", x: x - wide / 2, width: wide });
  const more = add(svg, "rect", { class: "lp-added", x: x - wide / 2 + 4, width: wide - 8 });
  const total = add(svg, "path", { class: "axis", "stroke-width": 3 });
  const again = add(svg, "path", { class: "axis dashed", "stroke-width": 2 });
  const tip = add(svg, "circle", { class: "lp-tip", cx: x, r: 4.5 });
  const head = add(svg, "text", { class: "lp-small lp-middle", x, y: BOTTOM + 16 }, k + 1);
  const fate = add(svg, "text", { class: "lp-middle", x, y: BOTTOM + 34 });
  const span = (el, a, b) => set(el, { y: y(Math.max(a, b)), height: Math.abs(y(a) - y(b)) });
  return (now, held) => {
    const [owed, sum, boosted, sent, after] = ["owed", "total", "boosted", "sent", "after"].map((name) => now[name][k]);
    const last = now.beat === 3;
    span(bar, 0, last ? after : owed);
    span(more, owed, sum);
    more.classList.toggle("held", held);
    more.style.display = last ? "none" : "";
    set(total, { d: `M${x - wide / 2 - 3},${y(sum)}h${wide + 6}` });
    total.style.opacity = last ? 0.35 : 1;
    for (const each of [again, tip]) each.style.display = now.beat === 2 ? "" : "none";
    set(again, { d: `M${x},${y(sum)}V${y(boosted)}` });
    set(tip, { cy: y(boosted) });
    tip.classList.toggle("passes", sent !== 0);
    const words = now.beat < 2 ? "" : sent ? (last ? signed(sent) : "✓") : "–";
    set(fate, { class: `lp-middle ${sent ? "lp-strong" : "lp-small"}` }, words);
    head.classList.toggle("lp-strong", held);
  };
}
