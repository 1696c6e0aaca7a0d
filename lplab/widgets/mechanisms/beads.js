// Lab 03: two beads get the same updates. The master copy creeps, and takes its 16-bit copy along; the other one falls back.

const [ABOVE, BELOW] = [70, 206]; // the two rulers
const EDGE = 48;

const show = (value) => value.toFixed(5).replace(/0+$/, "").replace(/\.$/, "");

export default mechanism({
  start: (data) => ({ format: "float16", units: data.start, step: 0 }),

  look(data, { format, units, step }) {
    const { ticks, walks } = data.formats[format];
    const walk = walks[units - data.updates[0]];
    const [master, copy, alone] = walk[step];
    const end = step === walk.length - 1;
    const above = ticks.find((tick) => tick > alone) ?? null;
    return { format, update: units * data.unit, step, master, copy, alone, above, end, next: end ? null : walk[step + 1][2] };
  },

  height: () => 262,

  draw(stage) {
    const { svg, width, data } = stage;
    const at = scale([1, data.end], [EDGE, width - EDGE]);
    const rulers = [ABOVE, BELOW].map((y) => add(svg, "g", { transform: `translate(0 ${y})` }));
    add(svg, "text", { class: "lp-strong", x: 2, y: 14 }, "with a master copy");
    add(svg, "text", { class: "lp-strong", x: 2, y: ABOVE + 56 }, "without one");
    const thread = add(svg, "path", { class: "green-line dashed", "stroke-width": 1.5 });
    const half = add(svg, "path", { class: "axis dashed", "stroke-width": 2 });
    const halfText = add(svg, "text", { class: "lp-small lp-middle", y: BELOW + 48 }, "half a step");
    const arrow = add(svg, "path", { class: "orange-line", "stroke-width": 3 });
    const [master, copy, alone] = ["green-fill", "blue-fill", "blue-fill"].map((kind) =>
      add(svg, "circle", { class: `${kind} lp-glide lp-dot`, r: 9, stroke: "var(--lp-ground)", "stroke-width": 2 }));
    const masterText = add(svg, "text", { class: "lp-small", y: ABOVE - 35 });
    let label, shown;
    stage.handle({
      name: "update",
      range: () => data.updates,
      value: (now, { units }) => units,
      text: ({ update }) => `plus ${show(update)}`,
      point: ({ alone, update }) => [at(alone + update), BELOW - 54],
      drag: (x, y, now) => (at.inverse(x) - now.alone) / data.unit,
      set: (units) => ({ units, step: 0 }),
      shape: (g) => (label = pill(add(g, "g"), 92)),
      page: 4,
      surface: (x, y) => y > BELOW - 76,
    });
    return (now, { units }) => {
      const { ticks } = data.formats[now.format];
      rulers.forEach((ruler) => drawRuler(ruler, at, ticks));
      label.textContent = `+${show(now.update)}`;
      const tip = at(now.alone + now.update);
      set(label.parentElement, { transform: `translate(${Math.min(tip, width - 48) - tip})` });
      place(master, at(now.master), ABOVE - 26);
      place(copy, at(now.copy), ABOVE);
      set(thread, { d: `M${at(now.master)},${ABOVE - 18}L${at(now.copy)},${ABOVE - 9}` });
      const right = at(now.master) > width - 190;
      set(masterText, { x: at(now.master) + (right ? -14 : 14), class: right ? "lp-small lp-end" : "lp-small", y: ABOVE - 22 }, `float32: ${show(now.master)}`);
      place(alone, at(now.alone), BELOW);
      // an update that is lost is seen: the bead tries, and falls back
      const lost = shown && now.step === shown.step + 1 && now.alone === shown.alone && units === shown.units;
      if (lost) {
        stage.animate((share) => place(alone, at(now.alone) + (tip - at(now.alone)) * Math.sin(Math.PI * share), BELOW - 14 * Math.sin(Math.PI * share)), 300);
      }
      shown = { ...now, units };
      set(arrow, { d: `M${at(now.alone)},${BELOW - 22}H${tip}m-6,-5l6,5l-6,5M${tip},${BELOW - 40}V${BELOW + 10}` });
      const inside = now.above !== null;
      for (const each of [half, halfText]) each.style.display = inside ? "" : "none";
      if (inside) {
        const middle = at((now.alone + now.above) / 2);
        set(half, { d: `M${middle},${BELOW - 14}V${BELOW + 36}` });
        set(halfText, { x: middle });
      }
    };
  },

  tell({ format, update, step, master, copy, alone, above, next, end }, state, data) {
    const plus = `<b class="orange">${show(update)}</b>`;
    if (end) {
      return `After ${step} ${step === 1 ? "update" : "updates"} of ${plus} the master copy is <b class="green">${show(master)}</b>, and the weight without one is ` +
        `<b class="blue">${show(alone)}</b>. The next update leaves the picture. Drag the update to begin again.`;
    }
    const half = (above - alone) / 2;
    const rounded = next === alone
      ? `${plus} is less than half a step of ${format} (${show(half)}), so the lower bead <b>falls back to ${show(alone)}</b>.${data.updates[1] * data.unit < half ? " No update on this ruler is large enough." : ""}`
      : `${plus} is more than half a step of ${format} (${show(half)}), so the lower bead jumps a <b>whole step</b>, ${(2 * half / update).toFixed(1)} times the update.`;
    if (!step) return `${rounded} The master copy adds all updates up.`;
    const done = `After ${step} ${step === 1 ? "update" : "updates"}: the master copy is <b class="green">${show(master)}</b>, its 16-bit copy <b class="blue">${show(copy)}</b>, ` +
      `and the lower bead <b class="blue">${show(alone)}</b>.`;
    return `${done} ${rounded}`;
  },

  controls(stage) {
    stage.steps((by, now, { step }) => {
      if (by > 0 ? now.end : step === 0) return undefined;
      return { step: step + by };
    }, { forth: "Add the update", back: "Take it back", pause: 600 });
    stage.button("bfloat16", (now, { format }) => ({ format: format === "float16" ? "bfloat16" : "float16", step: 0 }), {
      pressed: (now, { format }) => format === "bfloat16",
    });
  },
});

/** A line with a tick for each number of the format. */
function drawRuler(g, at, ticks) {
  if (g.dataset.ticks === String(ticks.length)) return;
  g.dataset.ticks = ticks.length;
  g.replaceChildren();
  add(g, "path", { class: "axis", d: `M${at(ticks[0])},0H${at(ticks.at(-1))}` });
  add(g, "path", { class: "tick", "stroke-width": 2, d: ticks.map((tick) => `M${at(tick)},-10v20`).join("") });
  const apart = at(ticks[1]) - at(ticks[0]);
  ticks.forEach((tick, k) => {
    if (apart > 64 || k % 4 === 0) add(g, "text", { class: "lp-small lp-middle", x: at(tick), y: 27 }, k ? tick.toFixed(4) : tick);
  });
}
