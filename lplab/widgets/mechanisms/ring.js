// Lab 08: every part walks round the ring. In the first round it grows at each device, in the second it is handed out.

const HEIGHT = 312;
const BOX = 30; // height of a device

export default mechanism({
  start: () => ({ devices: 4, step: 0 }),

  look(data, { devices, step }) {
    const { held, sent } = data.rings[devices];
    const table = held[step];
    const whole = table.flat().filter((count) => count === devices).length;
    const grown = table[step % devices][0]; // the orange part, where it is now
    return { devices, step, last: held.length - 1, table, grown, whole, sent: sent[step] };
  },

  height: () => HEIGHT,

  draw(stage) {
    const { svg, width, data } = stage;
    const [cx, cy] = [width / 2, HEIGHT / 2];
    const outer = [Math.min(width / 2 - 44, 290), cy - BOX / 2 - 16];
    const inner = [outer[0] - 64, outer[1] - 52];
    const tight = inner[0] < 80; // words would not fit into the ring, and stand in the upper corners
    const at = (radii, turns) => {
      const angle = 2 * Math.PI * (turns - 0.25); // device 0 stands at the top, the others follow clockwise
      return [cx + radii[0] * Math.cos(angle), cy + radii[1] * Math.sin(angle)];
    };
    add(svg, "ellipse", { class: "axis dashed", cx, cy, rx: inner[0], ry: inner[1] });
    const [left, right] = tight ? [{ x: 2 }, { x: width - 2 }] : [{ x: cx }, { x: cx }];
    const [start, end] = tight ? ["", "lp-end"] : ["lp-middle", "lp-middle"];
    const heights = tight ? [14, 32, 14, 30] : [cy - 20, cy, cy + 22, cy + 37];
    add(svg, "text", { class: `lp-small ${start}`, ...left, y: heights[0] }, "sent by each:");
    const counter = add(svg, "text", { class: `lp-strong ${start}`, ...left, y: heights[1] });
    const phase = heights.slice(2).map((y) => add(svg, "text", { class: `lp-small ${end}`, ...right, y }));
    const places = add(svg, "g");
    let boxes = [];
    let walkers = [];
    let label;
    let shown; // what was drawn last: a step is walked, a jump is not
    const build = (devices) => {
      places.replaceChildren();
      const wide = Math.min(84, (devices > 4 ? 0.24 : 0.3) * width);
      boxes = Array.from({ length: devices }, (_, device) => drawDevice(places, at(outer, device / devices), wide, device, devices));
      walkers = Array.from({ length: devices - 1 }, () => {
        const g = add(places, "g");
        return [g, add(g, "circle", { class: "lp-walker", r: 11 }), add(g, "text", { class: "lp-small lp-middle lp-on-colour", y: 4 })];
      });
    };
    stage.handle({
      name: "orange part",
      range: ({ last }) => [0, last],
      value: ({ step }) => step,
      text: ({ step, devices, grown }) => `after step ${step}: at device ${step % devices}, ${grown} of ${devices} gradients added up`,
      point: ({ step, devices }) => at(inner, step / devices),
      drag: (x, y, { step, devices }) => {
        const turns = Math.atan2((y - cy) / inner[1], (x - cx) / inner[0]) / (2 * Math.PI) + 0.25;
        const ahead = turns * devices - step;
        return step + ahead - devices * Math.round(ahead / devices); // the nearest way round
      },
      set: (step) => ({ step }),
      shape: (g) => (label = pill(g, 44)),
      page: 4,
    });
    return (now) => {
      const { devices, step, table, grown, sent } = now;
      if (shown?.devices !== devices) build(devices);
      table.forEach((row, device) => boxes[device](row));
      label.textContent = grown;
      const walk = (turns) => walkers.forEach(([g], k) => place(g, ...at(inner, (k + 1 + turns) / devices)));
      walkers.forEach(([, circle, text], k) => {
        const count = table[(k + 1 + step) % devices][k + 1];
        set(text, {}, count);
        circle.classList.toggle("whole", count === devices);
      });
      const near = shown?.devices === devices && Math.abs(shown.step - step) === 1;
      if (near) stage.animate((share) => walk(step + (shown.from - step) * (1 - share)), 300);
      else stage.animate(() => walk(step), 0);
      shown = { devices, step, from: shown?.devices === devices ? shown.step : step };
      set(counter, {}, `${short(sent, 3)} ${sent === 1 ? "gradient" : "gradients"}`);
      const round = step === now.last ? ["done", ""] : step < devices - 1 ? ["first round:", "add"] : ["second round:", "hand on"];
      round.forEach((words, k) => set(phase[k], {}, words));
    };
  },

  tell({ devices, step, last, grown, whole, sent }) {
    const part = `The <b class="orange">orange part</b>`;
    if (!step) {
      return `Each of the ${devices} devices has its own gradient, cut into ${devices} parts. ${part} of device 0 is about to leave, and so is one part of every other device.`;
    }
    const where = `has met ${grown} of ${devices} gradients`;
    if (step < devices - 1) {
      return `After ${step} ${step === 1 ? "step" : "steps"} ${part.replace("The", "the")} ${where}. At each device the part of that device is added to it. All parts walk at once, so no connection is idle.`;
    }
    if (step === devices - 1 && step !== last) {
      return `${part} is complete: it holds the sum of all ${devices} gradients. So is one part on every device. Now the complete parts walk on.`;
    }
    if (step < last) return `${part} is complete and walks on. Each device keeps a copy: ${whole} of ${devices * devices} parts are complete.`;
    return `After ${step} steps every device has every part of the sum. Each has sent ${step} parts of 1/${devices}, together <b>${short(sent, 3)} gradients</b>, ` +
      "and with more devices it stays below 2.";
  },

  controls(stage) {
    stage.steps((by, now, { step }) => {
      const next = step + by;
      return next < 0 || next > now.last ? undefined : { step: next };
    }, { pause: 700 });
    const [fewest, most] = stage.data.devices;
    const other = (by) => ({ devices, step }) => ({ devices: devices + by, step: Math.min(step, 2 * (devices + by - 1)) });
    stage.button("Fewer devices", other(-1), { off: ({ devices }) => devices === fewest });
    stage.button("More devices", other(1), { off: ({ devices }) => devices === most });
  },
});

/** A device with a column for each part, as high as gradients are added up in it; returns what shows other numbers. */
function drawDevice(parent, [x, y], wide, device, devices) {
  const g = add(parent, "g");
  place(g, x - wide / 2, y - BOX / 2);
  add(g, "text", { class: "lp-small lp-middle", x: wide / 2, y: -4 }, `device ${device}`);
  add(g, "rect", { class: "lp-trough", width: wide, height: BOX, rx: 4 });
  const step = wide / devices;
  const columns = Array.from({ length: devices }, (_, part) =>
    add(g, "rect", { x: part * step + 1, width: step - 2, y: 0, height: BOX, class: "lp-part" }));
  add(g, "rect", { class: "lp-orange-mark", x: 1, y: BOX + 1, width: step - 2, height: 3 });
  return (row) => row.forEach((count, part) => {
    const high = (BOX * count) / devices;
    set(columns[part], { y: BOX - high, height: high });
    columns[part].classList.toggle("whole", count === devices);
  });
}
