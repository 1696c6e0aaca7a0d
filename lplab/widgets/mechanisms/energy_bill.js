// Lab 12: a training's bill. Hours times watts are areas of energy, and the grid turns the same parts into carbon.

const [TOP, BOTTOM, GRID] = [38, 196, 262]; // of the areas; the line of the grid
const [LEFT, RIGHT] = [38, 112];
const PARTS = [
  ["computing", "blue-fill", "computing"],
  ["static", "lp-static", "chip, all the time"],
  ["machine", "grey-fill", "machine"],
  ["building", "amber-band", "building"],
];

export default mechanism({
  start: () => ({ hours: 24, chips: 12, place: 6, building: "efficient" }),

  look(data, { hours, chips, place, building }) {
    const pue = data.pues[building];
    const machines = data.watts.computing + data.watts.static + data.watts.machine;
    const each = { ...data.watts, building: (pue - 1) * machines };
    const watts = Object.fromEntries(Object.entries(each).map(([name, value]) => [name, value * chips]));
    const kwh = (pue * machines * chips * hours) / 1000;
    const [name, grams] = data.places[place];
    return { watts, kwh, name, grams, kilograms: (kwh * grams) / 1000, share: (each.computing + each.static) / (pue * machines), pue };
  },

  height: () => 304,

  draw(stage) {
    const { svg, width, data } = stage;
    const most = Math.max(...Object.values(data.pues)) * Object.values(data.watts).reduce((a, b) => a + b) * data.chips;
    const dirtiest = Math.max(...data.places.map(([, grams]) => grams));
    const x = scale([0, data.hours], [LEFT, width - RIGHT]);
    const y = scale([0, most], [BOTTOM, TOP]);
    const high = scale([0, (((most * data.hours) / 1000) * dirtiest) / 1000], [BOTTOM, TOP]);
    const grid = scale([0, dirtiest], [LEFT, width - 62]);
    const tight = width < 400; // the words need two lines
    PARTS.forEach(([, kind, text], k) => {
      const at = 2 + (tight ? 0.4 * (k % 2) * width : [0, 0.25, 0.585, 0.79][k] * Math.min(width, 480));
      const y = tight && k > 1 ? 18 : 2;
      add(svg, "rect", { class: kind, x: at, y, width: 11, height: 11 });
      add(svg, "text", { class: "lp-small", x: at + 15, y: y + 10 }, text);
    });
    for (const kilowatts of [0, 2, 4, 6]) {
      add(svg, "path", { class: "grid", d: `M${LEFT},${y(1000 * kilowatts)}H${width - RIGHT}` });
      add(svg, "text", { class: "lp-small lp-end", x: LEFT - 5, y: y(1000 * kilowatts) + 4 }, kilowatts ? `${kilowatts} kW` : 0);
    }
    const areas = PARTS.map(([, kind]) => [add(svg, "rect", { class: kind, x: LEFT }), add(svg, "rect", { class: kind, x: width - 76, width: 40 })]);
    const column = width - 56;
    add(svg, "path", { class: "axis", d: `M${LEFT},${BOTTOM}H${width - RIGHT}M${column - 26},${BOTTOM}h52` });
    const sum = add(svg, "text", { class: "lp-strong lp-middle", x: column });
    add(svg, "text", { class: "lp-small lp-middle", x: column, y: BOTTOM + 17 }, "CO₂e");
    add(svg, "path", { class: "axis", d: `M${LEFT},${GRID}H${width - 62}` });
    for (const [, grams] of data.places) add(svg, "path", { class: "tick", d: `M${grid(grams)},${GRID - 6}v12` });
    for (const [k, end] of [[0, "start"], [data.places.length - 1, "end"]]) {
      const [name, grams] = data.places[k];
      add(svg, "text", { class: "lp-small", x: end === "end" ? grid(grams) + 22 : LEFT - 10, y: GRID + 32, "text-anchor": end }, `${name}: ${grams} g${tight ? "" : " a kWh"}`);
    }
    const label = {};
    const handle = (name, pixels, options) => stage.handle({ name, shape: (g) => (label[name] = pill(add(g, "g"), pixels, options.upright)), ...options });
    handle("hours", 74, {
      range: () => [1, data.hours],
      value: (now, { hours }) => hours,
      text: ({ kwh }, { hours }) => `${hours} hours, ${short(kwh, 3)} kilowatt hours`,
      point: (now, { hours }) => [x(hours), BOTTOM + 20],
      drag: (px) => x.inverse(px),
      set: (hours) => ({ hours }),
      page: 6,
      surface: (px, py) => Math.abs(py - BOTTOM - 20) < 18 && px < width - RIGHT + 20,
    });
    handle("chips", 94, {
      upright: true,
      range: () => [1, data.chips],
      value: (now, { chips }) => chips,
      text: ({ kwh }, { chips }) => `${chips} chips, ${short(kwh, 3)} kilowatt hours`,
      point: ({ watts, pue }) => [LEFT + 49, y(total(watts))],
      drag: (px, py, { watts }, { chips }) => y.inverse(py) / (total(watts) / chips),
      set: (chips) => ({ chips }),
      page: 4,
    });
    handle("grid", 76, {
      range: () => [0, data.places.length - 1],
      value: (now, { place }) => place,
      text: ({ name, grams }) => `${name}, ${grams} grams a kilowatt hour`,
      point: ({ grams }) => [grid(grams), GRID],
      drag: (px) => nearest(data.places.map(([, grams]) => grid(grams)), px),
      set: (place) => ({ place }),
      page: 3,
      surface: (px, py) => Math.abs(py - GRID) < 18,
    });
    return (now, { hours, chips }) => {
      label.hours.textContent = `${hours} h`;
      label.chips.textContent = chips === 1 ? "1 chip" : `${chips} chips`;
      label.grid.textContent = `${now.grams} g`;
      let [below, under] = [0, 0];
      PARTS.forEach(([name], k) => {
        const [watts, kilograms] = [now.watts[name], (now.watts[name] / total(now.watts)) * now.kilograms];
        set(areas[k][0], { y: y(below + watts), width: x(hours) - x(0), height: y(0) - y(watts) });
        set(areas[k][1], { y: high(under + kilograms), height: high(0) - high(kilograms) });
        [below, under] = [below + watts, under + kilograms];
      });
      set(sum, { y: high(now.kilograms) - 6 }, `${short(now.kilograms, 3)} kg`);
    };
  },

  tell({ kwh, name, kilograms, share, pue, watts }, { hours, chips }) {
    return `${chips === 1 ? "One chip" : `${chips} chips`} for ${hours} ${hours === 1 ? "hour" : "hours"}: the area is <b class="orange">${short(kwh, 3)}\u00a0kWh</b>, and with this grid (${name}) it is <b>${short(kilograms, 3)}\u00a0kg</b> of CO₂e. ` +
      `The chips themselves take <b class="blue">${percent(share)}</b>, the machines around them ${percent(watts.machine / total(watts))}, and the building ${percent(watts.building / total(watts))} (PUE ${pue}).`;
  },

  controls(stage) {
    stage.button("Average building", (now, { building }) => ({ building: building === "average" ? "efficient" : "average" }), { pressed: (now, { building }) => building === "average" });
  },
});

const total = (watts) => Object.values(watts).reduce((a, b) => a + b);

/** The place of the number that is nearest to `x`. */
const nearest = (numbers, x) => numbers.reduce((best, each, k) => (Math.abs(each - x) < Math.abs(numbers[best] - x) ? k : best), 0);
