// Lab 10: each learner sends two of sixteen elements. With own choices the sum fills up, with one leader's it does not.

const [TOP, ROW, LEFT, RIGHT] = [24, 21, 70, 54]; // of the rows of learners
const [SUM, BARS] = [TOP + 8 * ROW + 12, TOP + 8 * ROW + 62];
const DARK = 10; // what is drawn darkest

export default mechanism({
  start: () => ({ learners: 2, choice: "own", beat: 0 }),

  look(data, { learners, choice, beat }) {
    const step = beat >> 1;
    const of = (way) => data.runs[way][learners - 1][step];
    const { wanted, after, union } = of(choice);
    const sent = wanted.map((row, k) => row.map((value, e) => value - after[k][e]));
    const counts = Object.fromEntries(Object.keys(data.runs).map((way) => [way, of(way).union.length]));
    return { learners, choice, step, over: beat % 2 === 1, leader: step % learners, wanted, after, sent, union, counts };
  },

  height: () => 312,

  draw(stage) {
    const { svg, width, data } = stage;
    const wide = (width - LEFT - RIGHT) / data.elements;
    const title = add(svg, "text", { class: "lp-strong", x: 2, y: 14 });
    const rows = Array.from({ length: 8 }, (_, k) => drawRow(svg, TOP + k * ROW, wide, data.elements));
    add(svg, "text", { class: "lp-small", x: 2, y: SUM + 15 }, "the sum");
    const sums = Array.from({ length: data.elements }, (_, e) =>
      add(svg, "rect", { class: "lp-cell", x: LEFT + e * wide + 1, y: SUM, width: wide - 2, height: ROW - 2 }));
    add(svg, "text", { class: "lp-small", x: 2, y: BARS - 6 }, "elements that the sum holds");
    const bars = [["own", "own choices"], ["leader", "one leader"]].map(([way, words], k) => {
      const y = BARS + k * 21;
      const text = add(svg, "text", { x: 2, y: y + 13 }, words);
      add(svg, "rect", { class: "lp-trough", x: 98, y, width: width - 98 - RIGHT, height: 17 });
      const bar = add(svg, "rect", { class: "green-fill", x: 98, y, height: 17 });
      return [way, text, bar, add(svg, "text", { x: width - RIGHT + 6, y: y + 13 })];
    });
    let label;
    stage.handle({
      name: "number of learners",
      upright: true,
      range: () => [1, 8],
      value: ({ learners }) => learners,
      text: ({ learners }) => `${learners} ${learners === 1 ? "learner" : "learners"}`,
      point: ({ learners }) => [width - RIGHT / 2 + 2, TOP + learners * ROW - ROW / 2],
      drag: (x, y) => (y - TOP + ROW / 2) / ROW,
      set: (learners) => ({ learners }),
      shape: (g) => (label = pill(g, 40, true)),
      page: 3,
      surface: (x, y) => y > TOP && y < SUM - 4,
    });
    return (now) => {
      const { learners, choice, step, over, leader, union, counts } = now;
      label.textContent = learners;
      set(title, {}, `step ${step + 1}: ${over ? "what stays" : "what is sent"}`);
      rows.forEach((show, k) => show(now, k, choice === "leader" && k === leader));
      sums.forEach((cell, e) => cell.classList.toggle("held", union.includes(e)));
      for (const [way, text, bar, count] of bars) {
        text.classList.toggle("lp-strong", way === choice);
        set(bar, { width: ((width - 98 - RIGHT) * counts[way]) / data.elements });
        bar.style.fillOpacity = way === choice ? 1 : 0.4;
        set(count, {}, `${counts[way]} of ${data.elements}`);
      }
    };
  },

  tell({ learners, choice, step, over, leader, sent, after, union, counts }, state, data) {
    const number = `<b class="orange">${learners} ${learners === 1 ? "learner" : "learners"}</b>`;
    const holds = `the sum holds <b class="green">${union.length} of ${data.elements}</b>`;
    if (over) {
      const waits = after.map((row) => Math.max(...row.map(Math.abs)));
      const most = waits.indexOf(Math.max(...waits));
      const place = after[most].findIndex((value) => Math.abs(value) === waits[most]);
      return `What was sent is gone, and the rest stays as the residual of each learner. The largest residual is that ` +
        `of element ${place + 1} at learner ${most + 1}: ${short(after[most][place])}. The next gradient is added to it, so nothing is lost.`;
    }
    if (learners === 1) return `With ${number}, its message is the sum, and ${holds}, whoever chooses. Drag the number downwards, to add learners.`;
    if (choice === "own") {
      return `Each of ${number} sends its own ${data.sent} largest elements. ${union.length > data.sent ? "They choose different elements, so" : "They choose the same elements, and"} ` +
        `${holds}. ${learners < 8 ? "With more learners it fills up." : "One leader would leave it at " + counts.leader + "."}`;
    }
    return `Learner ${leader + 1} leads. It chooses its largest element of each half, and all ${number} send their own values at these places. ` +
      `So ${holds}, with any number of learners. In the next step another learner leads.`;
  },

  controls(stage) {
    stage.steps((by, now, { beat }) => {
      const next = beat + by;
      return next < 0 || next >= 2 * stage.data.steps ? undefined : { beat: next };
    }, { pause: 1400 });
    for (const [choice, words] of [["own", "own choices"], ["leader", "one leader"]]) {
      stage.button(words, () => ({ choice }), { pressed: (now) => now.choice === choice });
    }
  },
});

/** A learner: a cell for each element, darker where more is owed, with a mark where it is sent. */
function drawRow(svg, y, wide, elements) {
  const g = add(svg, "g");
  const name = add(g, "text", { x: 2, y: y + 14 });
  const cells = Array.from({ length: elements }, (_, e) => {
    const at = { x: LEFT + e * wide + 1, y, width: wide - 2, height: ROW - 2 };
    add(g, "rect", { ...at, class: "lp-cell" });
    return [add(g, "rect", { ...at, class: "lp-owed" }), add(g, "rect", { ...at, class: "lp-sent" })];
  });
  return ({ learners, choice, over, wanted, after, sent, union }, k, leads) => {
    g.style.display = k < learners ? "" : "none";
    if (k >= learners) return;
    set(name, { class: leads ? "lp-strong" : "lp-small" }, `${leads ? "leader" : "learner"} ${k + 1}`);
    cells.forEach(([owed, mark], e) => {
      owed.style.fillOpacity = Math.min(1, Math.abs((over ? after : wanted)[k][e]) / DARK);
      mark.style.display = sent[k][e] || (choice === "leader" && union.includes(e)) ? "" : "none"; // also a 0 is sent
      mark.classList.toggle("gone", over);
    });
  };
}
