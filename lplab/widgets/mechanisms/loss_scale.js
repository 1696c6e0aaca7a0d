// Lab 03: the window of a format over a histogram of gradients. Dragged to the left it reaches smaller ones: this is the loss scale.

const [TOP, BASE] = [70, 226]; // of the window and of the histogram
const [LEFT, RIGHT] = [8, 8];
const PARTS = { "to zero": "lost-band", subnormal: "amber-band", normal: "blue-band", overflow: "pink-band" }; // as the explorer has them
const DIGITS = ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];
const power = (k) => `2${k < 0 ? "⁻" : ""}${[...String(Math.abs(k))].map((digit) => DIGITS[digit]).join("")}`;

export default mechanism({
  start: () => ({ scale: 0, format: "float16" }),

  look(data, { scale: k, format }) {
    const { edges, outcomes } = data.formats[format];
    const counts = outcomes[k - data.scales[0]];
    const [zero, normal, high] = edges.map((edge) => edge - k);
    return { ...counts, share: counts.zero / data.total, over: counts.infinite / data.total, edges: { zero, normal, high } };
  },

  height: () => 276,

  draw(stage) {
    const { svg, width, data } = stage;
    const last = data.first + data.counts.length;
    const x = scale([data.first, last], [LEFT, width - RIGHT]);
    const high = Math.max(...data.counts);
    const parts = Object.entries(PARTS).map(([name, kind]) => ({
      name,
      band: add(svg, "rect", { class: kind, y: TOP, height: BASE - TOP }),
      title: add(svg, "text", { class: "lp-small lp-middle" }),
    }));
    const wide = x(data.first + 1) - x(data.first);
    const bars = data.counts.map((count, k) => {
      const tall = count && Math.max(1.5, (count / high) * (BASE - TOP - 24));
      return add(svg, "rect", { x: x(data.first + k) + 0.5, y: BASE - tall, width: wide - 1, height: tall });
    });
    add(svg, "path", { class: "axis", d: `M${LEFT},${BASE}H${width - RIGHT}` });
    for (let k = data.first; k <= last; k += 10) {
      add(svg, "path", { class: "tick", d: `M${x(k)},${BASE}v5` });
      add(svg, "text", { class: `lp-small ${k === data.first ? "" : "lp-middle"}`, x: Math.max(x(k), 2), y: BASE + 20 }, power(k));
    }
    add(svg, "text", { class: "lp-small", x: 2, y: BASE + 40 }, "size of a gradient (powers of two)");
    const lost = add(svg, "text", { class: "lp-strong lp-halo", x: LEFT + 4, y: TOP + 16 });
    const infinite = add(svg, "text", { class: "lp-strong lp-halo lp-end", x: width - RIGHT - 4, y: TOP + 16 });
    let label;
    stage.handle({
      name: "window",
      range: () => data.scales.map((k) => -k).reverse(),
      value: (now, { scale: k }) => -k,
      text: ({ zero, infinite }, { scale: k }) => `loss scale 2 to the power of ${k}: ${zero} gradients become 0, ${infinite} infinite`,
      point: ({ edges }) => [(x(edges.zero) + x(edges.high)) / 2, 22],
      drag: (px, py, { edges }, { scale: k }) => x.inverse(px) - (edges.zero + edges.high) / 2 - k,
      set: (place) => ({ scale: -place || 0 }),
      shape: (g) => (label = pill(add(g, "g"), 136)),
      page: 5,
      surface: () => true,
    });
    return (now, { scale: k }) => {
      const { zero, normal, high: top } = now.edges;
      const middle = (x(zero) + x(top)) / 2;
      label.textContent = `loss scale ${power(k)}`;
      set(label.parentElement, { transform: `translate(${clamp(middle, 70, width - 70) - middle})` });
      const edges = [LEFT, x(zero), x(normal), x(top), width - RIGHT].map((at) => clamp(at, LEFT, width - RIGHT));
      parts.forEach(({ name, band, title }, n) => {
        const wide = edges[n + 1] - edges[n];
        set(band, { x: edges[n], width: wide });
        // in a narrow picture names stand in two rows, and begin where their part is at least to be seen
        const [room, high] = width < 480 ? [12, n % 2 ? 20 : 6] : [6 * name.length, 6];
        const half = 3.5 * name.length;
        set(title, { x: clamp(edges[n] + wide / 2, half, width - half), y: TOP - high }, wide > room ? name : "");
      });
      bars.forEach((bar, n) => {
        const octave = data.first + n;
        set(bar, { class: octave < zero ? "orange-fill" : octave >= Math.round(top) ? "pink-fill" : "blue-fill" });
      });
      set(lost, {}, now.zero ? `${now.zero.toLocaleString("en")} become 0` : "none becomes 0");
      set(infinite, {}, now.infinite ? `${now.infinite} become ∞` : "");
    };
  },

  tell({ share, over, zero, subnormal, normal, infinite }, { scale: k, format }, data) {
    const [name, all] = [`<b class="orange">${power(k)}</b>`, data.total.toLocaleString("en")];
    const first = k ? `With the loss scale ${name}, every gradient is multiplied by ${power(k)} before it is rounded to ${format}.` : `Without a loss scale (${name} = 1), gradients are rounded to ${format} as they are.`;
    const lost = zero ? `<b>${percent(share)}</b> of ${all} become 0` : `None of ${all} becomes 0`;
    const end = infinite ? `, and <b>${percent(over)}</b> become infinite, so the step is lost. The scale is too large.` : zero ? ", and nobody notices." : ", and none infinite.";
    return `${first} ${lost}${end} ${percent(normal / data.total)} keep all their digits, and ${percent(subnormal / data.total)} are subnormal.`;
  },

  controls(stage) {
    for (const format of Object.keys(stage.data.formats)) {
      stage.button(format, () => ({ format }), { pressed: (now, state) => state.format === format });
    }
  },
});
