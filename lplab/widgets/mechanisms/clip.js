// Lab 04: the clip in a histogram of real activations. A bar below it adds both errors up, and leaves a dot where it was.

const [HIGH, BASE, FOOT] = [34, 140, 296]; // top and foot of the histogram, foot of the errors
const ERRORS = 100; // pixels of the largest error
const [LEFT, RIGHT] = [44, 44];

/** The axis ends a little above the error of the largest clip; a bar that is taller is cut there. */
const axisEnd = ({ errors }, bits) => 1.25 * (errors[bits].rounding.at(-1) + errors[bits].clipping.at(-1));

export default mechanism({
  start: (data) => ({ place: data.clips.length, bits: 2, tried: {} }),

  look(data, { place, bits }) {
    const { levels, rounding, clipping, best } = data.errors[bits];
    const clip = data.clips[place - 1];
    const [round, cut] = [rounding[place - 1], clipping[place - 1]];
    return { clip, bits, levels: levels.map((level) => level * clip), rounding: round, clipping: cut, total: round + cut, beyond: data.beyond[place - 1], isBest: place === best };
  },

  height: () => 304,

  draw(stage) {
    const { svg, width, data } = stage;
    const x = scale([0, data.largest], [LEFT, width - RIGHT]);
    const most = Math.max(...data.counts);
    const wide = x(data.largest / data.counts.length) - x(0);
    const beyond = add(svg, "rect", { class: "lost-band", y: HIGH + 8, height: BASE - HIGH - 8 });
    data.counts.forEach((count, k) => {
      const high = Math.max(count ? 1.5 : 0, (count / most) * (BASE - HIGH - 22));
      add(svg, "rect", { class: "blue-fill", "fill-opacity": 0.75, x: x(0) + k * wide + 0.5, y: BASE - high, width: wide - 1, height: high });
    });
    add(svg, "path", { class: "axis", d: `M${LEFT},${BASE}H${width - RIGHT}` });
    const marks = add(svg, "path", { class: "green-line", "stroke-width": 2 });
    const names = add(svg, "g");
    const stem = add(svg, "path", { class: "orange-line", "stroke-width": 2.5 });
    add(svg, "path", { class: "axis", d: `M${LEFT},${FOOT}H${width - RIGHT}` });
    add(svg, "text", { class: "lp-small lp-halo lp-end", x: width - RIGHT - 4, y: HIGH + 24 }, "activations");
    add(svg, "text", { class: "lp-small", x: 2, y: BASE + 39 }, "error");
    add(svg, "path", { class: "tick", d: `M${LEFT - 4},${FOOT - ERRORS}h8` });
    const ends = add(svg, "text", { class: "lp-small lp-end", x: LEFT - 8, y: FOOT - ERRORS + 4 }); // of the axis of errors
    const dots = add(svg, "g");
    const taller = add(svg, "text", { class: "lp-small lp-halo", x: LEFT + 10, y: FOOT - ERRORS + 4 });
    const start = width < 320 ? 38 : LEFT + 14; // of the legend, which is close to its name in a narrow window
    const [rounded, clipped] = ["blue-fill", "orange-fill"].map((kind) => add(svg, "rect", { class: kind, width: 18 }));
    const texts = ["blue-fill", "orange-fill"].map((kind, k) => {
      const left = start + k * Math.min(124, (width - start) / 2);
      add(svg, "rect", { class: kind, x: left, y: BASE + 29, width: 11, height: 11 });
      return add(svg, "text", { class: "lp-small", x: left + 16, y: BASE + 39 });
    });
    const sum = add(svg, "text", { class: "lp-strong lp-halo lp-middle" });
    let label;
    stage.handle({
      name: "clip",
      range: () => [data.lowest, data.clips.length],
      value: (now, { place }) => place,
      text: ({ clip, total }) => `${short(clip, 3)}, error ${percent(total)}`,
      point: ({ clip }) => [x(clip), 16],
      drag: (px) => (x.inverse(px) / data.largest) * data.clips.length,
      set: (place) => ({ place }),
      shape: (g) => (label = pill(g, 84)),
      page: 6,
      surface: () => true,
    });
    return (now, { place, bits, tried }) => {
      const { clip, levels, rounding, clipping, total } = now;
      const at = x(clip);
      label.textContent = `α = ${clip.toFixed(1)}`;
      set(beyond, { x: at, width: width - RIGHT - at });
      set(marks, { d: levels.map((level) => `M${x(level)},${HIGH + 14}V${BASE}`).join("") });
      names.replaceChildren();
      const named = bits > 2 ? [] : x(levels[1]) - x(0) > 24 ? levels : [0]; // in a small clip they would lie over one another
      for (const level of named) add(names, "text", { class: "lp-small lp-middle", x: x(level), y: BASE + 16 }, short(level, 2));
      set(stem, { d: `M${at},30V${BASE}` });
      const most = axisEnd(data, bits);
      set(ends, {}, percent(most));
      // with more bits the errors would be too small to be seen on the axis of two
      const times = short(axisEnd(data, 2) / most, 2);
      set(taller, {}, bits === 2 ? "" : width < 400 ? `${times} × as tall as 2 bits` : `drawn ${times} times as tall as with 2 bits`);
      const y = scale([0, most], [FOOT, FOOT - ERRORS]);
      const top = (value) => y(Math.min(value, most));
      set(rounded, { x: at - 9, y: top(rounding), height: FOOT - top(rounding) });
      set(clipped, { x: at - 9, y: top(total), height: top(rounding) - top(total) });
      set(texts[0], {}, `rounding ${percent(rounding)}`);
      set(texts[1], {}, `clipping ${percent(clipping)}`);
      set(sum, { x: Math.max(at, LEFT + 20), y: Math.max(top(total) - 8, FOOT - ERRORS + 2) }, percent(total));
      (tried[bits] ??= {})[place] = total;
      dots.replaceChildren();
      for (const [each, value] of Object.entries(tried[bits])) {
        if (value <= most) add(dots, "circle", { class: "grey-fill", cx: x(data.clips[each - 1]), cy: y(value), r: 3 });
      }
    };
  },

  tell({ clip, bits, rounding, clipping, total, beyond, isBest }) {
    const both = `The rounding error is <b class="blue">${percent(rounding)}</b> and the clipping error <b class="orange">${percent(clipping)}</b>, together <b>${percent(total)}</b> of the mean square of the activations.`;
    const cut = beyond ? `${percent(beyond)} of the activations are clipped.` : "No activation is clipped.";
    const best = isBest ? ` <b>No clip gives a smaller error</b> with ${bits} bits.` : "";
    return `With ${2 ** bits} levels up to ${short(clip, 3)}: ${cut} ${both}${best}`;
  },

  controls(stage) {
    for (const bits of Object.keys(stage.data.errors).map(Number)) {
      stage.button(`${bits} bits`, () => ({ bits }), { pressed: (now, state) => state.bits === bits });
    }
  },
});
