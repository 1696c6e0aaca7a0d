// Lab 00: a function that has forgotten a number has a hole in its line. A check tries the numbers where roundings go wrong.

const [RIGHT, YOURS, GAP, TESTS, TRIED] = [62, 116, 148, 196, 232]; // the two lines, the distance, tests, the boundary set
const [LEFT, END] = [74, 22];
const SIDES = { "-1": "just below ", 0: "", 1: "just above " };

export default mechanism({
  start: () => ({ place: 26, tried: 0, checking: false }),

  look(data, { place, tried }) {
    const { yours, right } = data.places[place];
    const seen = data.boundary.slice(0, tried);
    const wrong = seen.filter((each) => each.yours !== each.right).length;
    return { x: place / data.parts, yours, right, distance: yours - right, wrong, smallest: tried > data.smallest ? data.smallest : null };
  },

  height: () => 292,

  draw(stage) {
    const { svg, width, data } = stage;
    const x = scale([0, data.numbers.at(-1)], [LEFT, width - END]);
    const k = data.numbers.indexOf(data.forgotten);
    const [low, high] = [data.numbers[k - 1], data.numbers[k + 1]];
    for (const [name, at, numbers] of [["right", RIGHT, data.numbers], ["function", YOURS, data.numbers.filter((each) => each !== data.forgotten)]]) {
      add(svg, "text", { class: "lp-strong", x: 2, y: at + 5 }, name);
      add(svg, "path", { class: "axis", d: `M${x(0)},${at}H${width - END}` });
      let free = 0; // where the next name has room: in a narrow window not all have
      for (const each of numbers) {
        add(svg, "path", { class: "tick", "stroke-width": 3, d: `M${x(each)},${at - 8}v16` });
        if (x(each) < free) continue;
        add(svg, "text", { class: "lp-small lp-middle", x: x(each), y: at + 22 }, each);
        free = x(each) + 22;
      }
    }
    const hole = add(svg, "rect", { class: "lost-band", x: x(low) + 4, width: x(high) - x(low) - 8, y: YOURS - 8, height: 16 });
    add(svg, "text", { class: "lp-small", x: 2, y: GAP + 14 }, "distance");
    const gap = add(svg, "path", { class: "orange-line", "stroke-width": 4 });
    const far = add(svg, "text", { class: "lp-strong lp-middle lp-halo", y: GAP + 14 });
    add(svg, "text", { class: "lp-small", x: 2, y: TESTS + 4 }, "six tests");
    for (const each of data.tests) add(svg, "text", { class: "lp-small lp-middle", x: x(each), y: TESTS + 4 }, "✓");
    add(svg, "text", { class: "lp-small", x: 2, y: TRIED + 4 }, "boundary");
    add(svg, "text", { class: "lp-small", x: 2, y: TRIED + 19 }, "set");
    const marks = data.boundary.map(({ at, side, yours, right }) => {
      const [px, py] = [x(at), TRIED + 16 * side + 16];
      const wrong = yours !== right;
      add(svg, "circle", { class: "grey-fill", cx: px, cy: py, r: 2 });
      return add(svg, wrong ? "path" : "circle", wrong ? { class: "orange-line", "stroke-width": 3, d: `M${px - 4},${py - 4}l8,8m0,-8l-8,8` } : { class: "green-fill", cx: px, cy: py, r: 3 });
    });
    const found = add(svg, "circle", { class: "axis", "stroke-width": 2, r: 10 });
    const stem = add(svg, "path", { class: "orange-line dashed", "stroke-width": 1.5 });
    const jumps = [add(svg, "path", { class: "green-line", "stroke-width": 2.5 }), add(svg, "path", { class: "blue-line", "stroke-width": 2.5 })];
    const dots = [["green-fill", RIGHT], ["blue-fill", YOURS]].map(([kind, cy]) => add(svg, "circle", { class: kind, cy, r: 8, stroke: "var(--lp-ground)", "stroke-width": 2 }));
    let label;
    stage.handle({
      name: "number x",
      range: () => [0, data.places.length - 1],
      value: (now, { place }) => place,
      text: ({ x: value, yours, right }) => `${short(value)}, the function gives ${yours}, right is ${right}`,
      point: (now) => [x(now.x), 18],
      drag: (px) => x.inverse(px) * data.parts,
      set: (place) => ({ place, checking: false }),
      shape: (g) => (label = pill(add(g, "g"), 84)),
      page: 16,
      surface: (px, py) => py < GAP,
    });
    return (now, { tried }) => {
      const at = x(now.x);
      label.textContent = now.x.toFixed(2);
      set(label.parentElement, { transform: `translate(${clamp(at, 42, width - 42) - at})` });
      set(stem, { d: `M${at},32V${YOURS}` });
      [now.right, now.yours].forEach((value, row) => {
        const line = [RIGHT, YOURS][row];
        set(jumps[row], { d: `M${at},${line}H${x(value)}` });
        set(dots[row], { cx: x(value) });
      });
      const [from, to] = [x(now.right), x(now.yours)];
      set(gap, { d: now.distance ? `M${from},${GAP + 10}H${to}M${from},${GAP + 4}v12M${to},${GAP + 4}v12` : "" });
      set(far, { x: now.distance ? (from + to) / 2 : to }, now.distance ? short(Math.abs(now.distance)) : "0");
      hole.style.display = now.distance || now.smallest !== null ? "" : "none"; // it is for the reader to find
      marks.forEach((mark, place) => (mark.style.opacity = place < tried ? 1 : 0));
      found.style.display = now.smallest === null ? "none" : "";
      if (now.smallest !== null) {
        const { at: centre, side } = data.boundary[now.smallest];
        set(found, { cx: x(centre), cy: TRIED + 16 * side + 16 });
      }
    };
  },

  tell({ x, yours, right, distance, wrong, smallest }, { tried, checking }, data) {
    if (!checking) {
      const first = `For x = <b class="orange">${short(x)}</b> the function gives <b class="blue">${yours}</b>, and right is <b class="green">${right}</b>.`;
      if (distance) return `${first} The distance is <b>${short(Math.abs(distance))}</b>, so the function is wrong here. Its author tried six numbers, and none was in the hole.`;
      return `${first} Both are the same, so this number shows no mistake.`;
    }
    if (!tried) return "The check has tried no number yet.";
    const count = `The check has tried <b>${tried} of ${data.boundary.length}</b> numbers of the boundary set: the numbers of the format, the ties, and what is just beside them.`;
    if (smallest === null) return `${count} The function was right for all.`;
    const { at, side, yours: gave, right: should } = data.boundary[smallest];
    return `${count} For <b>${wrong}</b> of them the function was wrong. It shows the smallest, ${SIDES[side]}${at}: <b class="blue">${gave}</b> in place of <b class="green">${should}</b>.`;
  },

  controls(stage) {
    stage.steps((by, now, { tried }) => {
      const to = tried + by;
      return to < 0 || to > stage.data.boundary.length ? undefined : { tried: to, checking: true };
    }, { pause: 200 });
  },
});
