// Lab 14: eight numbers, one of them an outlier, are turned into each other by an angle, rounded to FP4, and turned back.

const [TOP, BOTTOM] = [26, 178]; // of the turned numbers
const [HIGH, FOOT] = [214, 284]; // of the numbers that came back
const DIAL = { x: 66, y: 96, radius: 46 };
const PAIRS = [["1 and 2,", "3 and 4, …"], ["1 and 3,", "2 and 4, …"], ["1 and 5,", "2 and 6, …"]];

const fraction = (scale) => (scale >= 1 ? String(scale) : `1/${1 / scale}`);
const onDial = (degrees, r) => [DIAL.x + r * Math.cos((degrees / 180) * Math.PI), DIAL.y - r * Math.sin((degrees / 180) * Math.PI)];

export default mechanism({
  start: () => ({ place: 0, coin: false }),

  look(data, { place, coin }) {
    const { turned, scale, ...kinds } = data.places[place];
    const { rounded, back, error, left } = kinds[coin ? "coin" : "nearest"];
    const end = data.ruler.at(-1) * scale;
    return { degrees: place * data.step, turned, scale, rounded, back, error, left, clipped: turned.map((value) => Math.abs(value) > end) };
  },

  height: () => 304,

  draw(stage) {
    const { svg, width, data } = stage;
    const count = data.numbers.length;
    const left = DIAL.x + DIAL.radius + 42;
    const x = scale([0, count], [left, width - 4]);
    const y = scale([-5.6, 8], [BOTTOM, TOP]);
    const low = scale([-1, 8.6], [FOOT, HIGH]);
    const wide = (x(1) - x(0)) * 0.6;
    const arc = [...Array(28).keys()].map((k) => onDial(5 * k, DIAL.radius).join(",")).join("L");
    add(svg, "path", { class: "axis", d: `M${arc}` });
    for (const degrees of [0, 45, 90, 135]) {
      const [from, to] = [DIAL.radius - 5, DIAL.radius + 5].map((r) => onDial(degrees, r));
      add(svg, "path", { class: "tick", "stroke-width": 2, d: `M${from}L${to}` });
    }
    const hand = add(svg, "path", { class: "orange-line", "stroke-width": 2.5 });
    add(svg, "text", { class: "lp-small", x: 2, y: DIAL.y + 32 }, "it now turns");
    const pairs = [50, 67].map((below) => add(svg, "text", { class: "lp-small", x: 2, y: DIAL.y + below }));
    const size = add(svg, "text", { class: "lp-strong", x: 2, y: DIAL.y + 94 });
    add(svg, "text", { class: "lp-strong", x: Math.min(left, width - 162), y: 13 }, "turned, then rounded");
    add(svg, "text", { class: "lp-strong", x: left, y: HIGH - 6 }, "turned back");
    const ruler = add(svg, "g");
    const bars = data.numbers.map((_, k) => ({ turned: pair(svg, x(k + 0.5), wide), back: pair(svg, x(k + 0.5), wide), text: add(svg, "text", { class: "lp-small lp-middle", x: x(k + 0.5), y: FOOT + 16 }) }));
    for (const at of [y(0), low(0)]) add(svg, "path", { class: "axis", d: `M${left},${at}H${width - 4}` });
    let label;
    stage.handle({
      name: "angle",
      range: () => [0, data.places.length - 1],
      value: (now, { place }) => place,
      text: ({ degrees, error }) => `${degrees} degrees, error ${percent(error)}`,
      point: ({ degrees }) => onDial(degrees, DIAL.radius),
      drag: (px, py) => {
        const degrees = (Math.atan2(DIAL.y - py, px - DIAL.x) / Math.PI) * 180;
        return (degrees < -112 ? degrees + 360 : degrees) / data.step;
      },
      set: (place) => ({ place }),
      shape: (g) => (label = pill(g, 64)),
      page: 11,
      surface: (px, py) => px < left - 8 && py < DIAL.y + 20,
    });
    return (now) => {
      label.textContent = `${now.degrees}°`;
      set(hand, { d: `M${DIAL.x},${DIAL.y}L${onDial(now.degrees, DIAL.radius)}` });
      PAIRS[clamp(Math.ceil(now.degrees / data.round) - 1, 0, 2)].forEach((text, k) => set(pairs[k], {}, text));
      const end = data.ruler.at(-1) * now.scale;
      const marks = data.ruler.flatMap((mark) => [mark * now.scale, -mark * now.scale]).filter((mark) => y(mark) <= BOTTOM);
      ruler.replaceChildren();
      add(ruler, "rect", { class: "blue-band", x: left, y: y(end), width: width - 4 - left, height: Math.min(y(-end), BOTTOM) - y(end) });
      add(ruler, "path", { class: "lp-mark faint", d: marks.map((mark) => `M${left},${y(mark)}H${width - 4}`).join("") });
      set(size, {}, `scale ${fraction(now.scale)}`);
      bars.forEach(({ turned, back, text }, k) => {
        span(turned, y, now.turned[k], now.rounded[k], now.clipped[k]);
        span(back, low, data.numbers[k], now.back[k], false);
        set(text, {}, k === data.outlier || width > 560 ? short(Number(now.back[k].toFixed(1))) : "");
      });
    };
  },

  tell({ degrees, scale, back, error, left, clipped }, { coin }, data) {
    const many = clipped.filter(Boolean).length;
    const end = `6 × ${fraction(scale)}`;
    const first = degrees ? `Turned by <b class="orange">${degrees}°</b>, ` : "Not turned, ";
    const cut = many ? `<b>${many} of 8</b> numbers ${many > 1 ? "are" : "is"} beyond the end of the ruler, ${end}, and clipped` : `no number is beyond the end of the ruler, ${end}`;
    const how = coin ? `On average over ${data.draws} roundings with a coin` : "Rounded to nearest";
    const which = coin && many ? " A coin does not repair what is clipped." : "";
    return `${first}${cut}. ${how}, the outlier ${data.numbers[data.outlier]} comes back as <b class="blue">${short(back[data.outlier], 3)}</b>. ` +
      `The error is <b>${percent(error)}</b> of the length, and ${percent(left)} of the gradient is left along its direction.${which}`;
  },

  controls(stage) {
    stage.steps((by, now, { place }) => (stage.data.places[place + by] ? { place: place + by } : undefined), { pause: 120 });
    stage.button("With a coin", (now, { coin }) => ({ coin: !coin }), { pressed: (now, { coin }) => coin });
  },
});

/** A filled bar for what is left, and an outline for what it was. */
function pair(svg, x, wide) {
  const at = { x: x - wide / 2, width: wide };
  return { filled: add(svg, "rect", { class: "blue-fill", ...at }), outline: add(svg, "rect", { class: "lp-outline", ...at, rx: 2 }) };
}

function span({ filled, outline }, y, was, is, lost) {
  for (const [el, value] of [[filled, is], [outline, was]]) set(el, { y: y(Math.max(value, 0)), height: Math.abs(y(value) - y(0)) });
  outline.classList.toggle("lost", lost);
}
