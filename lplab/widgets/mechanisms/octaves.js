// Lab 01: a value on the number line of E4M3. The line reaches from 0 to a power of two; one step closer halves it.

const PLACES = 256; // of the number on the line: every border between two numbers is one of them
const [LINE, BAND, EDGE] = [170, 40, 14]; // where the line lies, how high its bands are, and the room at its sides

export default mechanism({
  start: (data) => ({ x: data.start, zoom: data.views.findIndex((view) => view > data.start), subnormals: true }),

  look(data, { x, zoom, subnormals }) {
    const { places, borders } = subnormals ? data.with : data.without;
    const number = data.numbers[places[rank(borders, x)]];
    const octave = data.octaves.find(({ high }) => number.value < high);
    const gap = !subnormals && x < data.octaves[0].high;
    return { x, view: data.views[zoom], ...number, octave, gap, largest: number === data.numbers.at(-1) };
  },

  height: () => 228,

  draw(stage) {
    const { width, data, svg } = stage;
    const bits = add(svg, "g");
    const { cells, meanings } = drawBits(bits, width);
    const line = add(svg, "g", { "aria-hidden": true });
    const stem = add(svg, "path", { class: "orange-line", "stroke-width": 2 });
    const dot = add(svg, "circle", { class: "blue-fill lp-dot", r: 7, stroke: "var(--lp-ground)", "stroke-width": 2 });
    const name = add(svg, "text", { class: "lp-middle lp-strong", y: LINE + 46 });
    let label, body;
    const inside = [EDGE, width - EDGE - 4];
    const place = ({ x, view }) => clamp(Math.round((x / view) * PLACES), 0, PLACES);
    stage.handle({
      name: "number",
      range: () => [0, PLACES],
      value: place,
      text: ({ x, text }) => `${short(x, 3)}, becomes ${text}`,
      point: ({ x, view }) => [scale([0, view], inside)(x), LINE - 58],
      drag: (x) => scale([0, PLACES], inside).inverse(x),
      set: (value) => ({ x: (stage.now.view * value) / PLACES }),
      shape: (g) => (label = pill((body = add(g, "g")), 84)),
      page: 8,
      surface: (x, y) => y > LINE - 80,
    });
    let shown, switched; // the view that the line has now, and whether it has subnormal numbers
    return (now, state) => {
      const from = scale([0, now.view], inside)(now.x);
      label.textContent = short(now.x, 3);
      set(body, { transform: `translate(${clamp(from, 44, width - 44) - from})` }); // whole at the ends, too
      showBits(cells, now);
      const { octave, bits } = now;
      const digits = bits.slice(5);
      set(meanings[1], {}, now.gap || octave.subnormal ? `below ${octave.texts[1]}` : `${octave.texts[0]} to ${octave.texts[1]}`);
      set(meanings[2], {}, `step ${parseInt(digits, 2)} of 8`);
      const ruler = (view) => {
        const at = scale([0, view], inside);
        drawLine(line, at, view, width, now, state, data);
        const to = at(now.value);
        // while the line is drawn closer, the nearest number comes along; the orange one stays under the finger
        set(stem, { d: `M${from},${LINE - 44}C${from},${LINE - 16} ${to},${LINE - 30} ${to},${LINE - 8}` });
        set(dot, { cx: to, cy: LINE });
        set(name, { x: clamp(to, 12, width - 24) }, now.text);
      };
      if (shown && shown !== now.view && switched === state.subnormals) {
        const began = shown;
        stage.animate((share) => ruler((shown = began * (now.view / began) ** share)));
      } else ruler((shown = now.view));
      switched = state.subnormals;
    };
  },

  tell(now, { subnormals }, data) {
    const { x, text, bits, octave, gap, largest } = now;
    const first = data.octaves[1];
    const exponent = bits.slice(1, 5);
    const head = `${short(x, 3)} becomes <b class="blue">${text}</b>.`;
    if (gap) {
      return `${head} <b>Without subnormals nothing lies between 0 and ${first.texts[0]}.</b> The hole is eight steps wide.`;
    }
    if (octave.subnormal) {
      return `${head} The exponent bits are all 0. Here the steps do not shrink any more. They are those of the octave above, ` +
        `<b>${octave.step}</b>, so there is <b>no hole at 0</b>.`;
    }
    const steps = parseInt(bits.slice(5), 2);
    const above = steps ? `${steps} ${steps === 1 ? "step" : "steps"} of ${octave.step} above ${octave.texts[0]}` : "where the octave begins";
    const end = largest ? " No larger number exists." : "";
    return `${head} Exponent bits ${exponent}: the octave from <b>${octave.texts[0]}</b> to <b>${octave.texts[1]}</b>. ` +
      `Mantissa bits ${bits.slice(5)}: ${above}.${end}`;
  },

  controls(stage) {
    const last = stage.data.views.length - 1;
    const zoomed = (by) => (now, { x, zoom }) => {
      const to = clamp(zoom + by, 0, last);
      return { zoom: to, x: (x * stage.data.views[to]) / stage.data.views[zoom] };
    };
    stage.button("Closer to 0", zoomed(-1), { off: (now, { zoom }) => zoom === 0 });
    stage.button("Farther", zoomed(1), { off: (now, { zoom }) => zoom === last });
    stage.button("All the way to 0", zoomed(-last), { off: (now, { zoom }) => zoom === 0 });
    stage.button("With subnormals", (now, { subnormals }) => ({ subnormals: !subnormals }), { pressed: (now, { subnormals }) => subnormals });
  },
});

const GROUPS = [["sign", 1], ["exponent", 4], ["mantissa", 3]];

/** The eight bits as boxes, in their three groups. */
function drawBits(g, width) {
  const [gap, apart] = [3, 16];
  const size = Math.min(30, (width - 2 * EDGE - 2 * apart) / 8 - gap); // smaller in a narrow window
  let x = Math.max(EDGE, (width - 8 * (size + gap) - 2 * apart) / 2);
  const meanings = [];
  const cells = GROUPS.flatMap(([name, count]) => {
    const wide = count * (size + gap) - gap;
    meanings.push(add(g, "text", { class: "lp-middle lp-strong", x: x + wide / 2, y: 68 }));
    add(g, "text", { class: "lp-small lp-middle", x: x + wide / 2, y: 12 }, name);
    const made = Array.from({ length: count }, (_, k) => {
      const left = x + k * (size + gap);
      const box = add(g, "rect", { x: left, y: 19, width: size, height: size, rx: 5, class: "lp-bit-box" });
      return { box, digit: add(g, "text", { class: "lp-middle lp-mono lp-bit-digit", x: left + size / 2, y: 25 + size / 2 }) };
    });
    x += wide + apart;
    return made;
  });
  return { cells, meanings };
}

function showBits(cells, { bits }) {
  cells.forEach(({ box, digit }, k) => {
    box.classList.toggle("on", bits[k] === "1");
    digit.classList.toggle("on", bits[k] === "1");
    digit.textContent = bits[k];
  });
}

/** Bands of octaves, and a tick for each number, as far as the eye can tell them apart. */
function drawLine(g, at, view, width, now, { subnormals }, data) {
  g.replaceChildren();
  const [top, bottom] = [LINE - BAND / 2, LINE + BAND / 2];
  data.octaves.forEach((octave, k) => {
    const [left, right] = [at(octave.low), Math.min(at(octave.high), width)];
    if (left >= width || right - left < 5) return;
    const hole = octave.subnormal && !subnormals;
    const kind = hole ? "lost-band" : octave.subnormal ? "amber-band" : `blue-band${k % 2 ? " odd" : ""}`;
    add(g, "rect", { class: kind, x: left, y: top, width: right - left, height: BAND });
    const texts = { class: "lp-small lp-middle", y: bottom + 14 };
    if (left > 30 && left < width - 40) add(g, "text", { ...texts, x: left }, octave.texts[0]);
    const middle = (left + right) / 2;
    const words = hole ? "a hole" : octave.subnormal ? `subnormal: steps of ${octave.step}` : `steps of ${octave.step}`;
    const wide = right - left;
    if (wide > 7 * words.length) add(g, "text", { class: "lp-small lp-middle", x: middle, y: top - 5 }, words);
    const inOctave = data.numbers.filter(({ value }) => value >= octave.low && value < octave.high && at(value) <= width && !(hole && value > 0));
    const own = octave.low === now.octave.low;
    const marks = inOctave.map(({ value }) => `M${at(value)},${top + (own ? 4 : 9)}V${bottom - (own ? 4 : 9)}`).join("");
    if (wide / 8 >= 1.6) add(g, "path", { class: own ? "blue-line" : "tick", "stroke-width": own ? 2.2 : 1.2, d: marks });
    else add(g, "rect", { class: "lp-blur", x: left, y: LINE - 8, width: wide, height: 16 });
  });
  add(g, "path", { class: "axis", d: `M${at(0)},${LINE}H${width}` });
  add(g, "text", { class: "lp-small lp-middle", x: at(0), y: bottom + 14 }, "0");
  const end = Math.log2(view);
  if (Number.isInteger(end)) {
    const last = data.octaves.find(({ high }) => high === view);
    add(g, "text", { class: "lp-small lp-end", x: width - 2, y: bottom + 14 }, last.texts[1]);
  }
}
