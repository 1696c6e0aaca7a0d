// What moves on the pages of the site, without a kernel: mechanisms, figures, panels of bits, and explorers at recorded
// positions.

const here = new URL(".", import.meta.url);
const contentOf = (el) => JSON.parse(el.querySelector(":scope > script[type='application/json']").textContent);

// ---- theme: what lplab's own style sheets know ------------------------------------------------------------------------

const root = document.documentElement;
const tellTheme = () => (document.body.dataset.jpThemeLight = String(root.dataset.theme !== "dark"));
new MutationObserver(tellTheme).observe(root, { attributeFilter: ["data-theme"] });
tellTheme();

// ---- mechanisms: whole, as in a notebook. They come first, since nothing else is as small -------------------------------

/** A model with content that never changes. */
const fixed = (content) => ({ get: () => content, on() {}, off() {} });

for (const el of document.querySelectorAll(".lp-mechanism-place")) {
  const content = contentOf(el);
  const module = await import(new URL(`mechanisms/${content.name}.js`, here));
  module.default.render({ model: fixed(content), el });
}

// ---- words of the glossary that open where they stand -------------------------------------------------------------------

if (document.querySelector("a[href*='glossary.html#']")) {
  const [{ explain }, { words }] = await Promise.all([import(new URL("glossary_words.js", here)), import(new URL("words.js", here))]);
  explain(words);
}

// ---- figures -----------------------------------------------------------------------------------------------------------

let plotly; // one script for all figures of a page, loaded when the first one comes into sight

function loadPlotly() {
  return (plotly ??= new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = new URL("plotly.min.js", here);
    script.onload = () => done(globalThis.Plotly);
    script.onerror = () => fail(new Error("plotly.min.js did not load"));
    document.head.append(script);
  }));
}

const { headed } = await import(new URL("figure_parts.js", here));

/** A figure's element: draws what it is given, once it is in sight. */
class Figure {
  constructor(el) {
    this.el = el;
    this.plot = document.createElement("div");
    el.append(this.plot);
    this.inSight = new Promise((done) => {
      const watch = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        watch.disconnect();
        done();
      }, { rootMargin: "300px" });
      watch.observe(el);
    });
  }

  async show(content) {
    this.content = content;
    const { heading, alt } = content;
    this.el.setAttribute("role", "img");
    this.el.setAttribute("aria-label", alt || "figure");
    await this.inSight;
    if (this.content !== content) return; // another one came meanwhile
    const { data, layout } = structuredClone(content);
    this.el.style.minHeight = `${layout.height ?? 360}px`;
    this.el.querySelector(":scope > .lp-fig-heading")?.remove();
    if (heading?.title) headed(fixed(heading), this.el);
    const settings = { responsive: true, displaylogo: false, displayModeBar: false };
    await (await loadPlotly()).react(this.plot, data, { ...layout, width: undefined, autosize: true }, settings);
    this.el.dataset.drawn = "true";
  }
}

// ---- panels of bits ----------------------------------------------------------------------------------------------------

const bits = import(new URL("bits.js", here));

/** What a panel of bits asks of its model; there is no Python behind it. */
export class PanelModel {
  constructor(state, typed) {
    this.state = state;
    this.listeners = new Map();
    this.typed = typed;
  }
  get(name) {
    return this.state[name];
  }
  set(names, value) {
    for (const [name, each] of Object.entries(typeof names === "string" ? { [names]: value } : names)) {
      this.state[name] = each;
      for (const listener of this.listeners.get(`change:${name}`) ?? []) listener(this);
    }
  }
  on(event, listener) {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
  }
  off(event, listener) {
    this.listeners.set(event, (this.listeners.get(event) ?? []).filter((each) => each !== listener));
  }
  save_changes() {}
  send({ text }) {
    this.typed(this, text);
  }
}

/** The table of a panel, from hexadecimal digits. */
function tableOf(digits) {
  const bytes = Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  return new DataView(bytes.buffer);
}

/** Codes and values of a format, in rising order, without NaN. */
export function valuesOf({ decode }, state) {
  const table = new Float64Array(state.table.buffer);
  const all = Array.from({ length: 2 ** state.format_spec.bits }, (_, code) => [decode(state.format_spec, table, code), code]);
  return all.filter(([value]) => !Number.isNaN(value)).sort(([a], [b]) => a - b || Object.is(b, 0) - Object.is(a, 0));
}

/** Encodes a typed number to the nearest value; a tie goes to the even code. */
function type(parts) {
  return (model, text) => {
    const typed = Number(text.replace(/[\u2212]/g, "-").replace(",", "."));
    if (!text.trim() || Number.isNaN(typed)) {
      model.set({ note: { text: `${text || "nothing"} is no number`, tone: "error" } });
      return;
    }
    if (model.get("format_spec").bits > 16) {
      model.set({ note: { text: "On this page you can type numbers for formats of up to 16 bits.", tone: "info" } });
      return;
    }
    const finite = valuesOf(parts, model.state).filter(([value]) => Number.isFinite(value));
    const [value, code] = finite.reduce((best, each) => {
      const [gap, least] = [Math.abs(each[0] - typed), Math.abs(best[0] - typed)];
      return gap < least || (gap === least && each[1] % 2 === 0 && best[1] % 2 === 1) ? each : best;
    });
    model.set({ pattern: code, note: { text: `the nearest value to ${parts.show(typed)} is ${parts.show(value)}`, tone: "info" } });
  };
}

/** A panel of bits in `el`; returns its model. */
export async function panel(el, content) {
  const parts = await bits;
  const state = { ...content, table: tableOf(content.table) };
  const model = new PanelModel(state, type(parts));
  el.replaceChildren();
  parts.default.render({ model, el });
  return model;
}

// ---- explorers at recorded positions -----------------------------------------------------------------------------------

function explorer(el) {
  const { pool, frames } = contentOf(el);
  const places = [...el.querySelectorAll("[data-leaf]")];
  const shown = new Map(); // what each place shows now
  const buttons = [...el.querySelectorAll("button[data-frame]")];

  /** Shows a frame; returns the figures that change. */
  function show(number) {
    const changed = [];
    frames[number].forEach((key, k) => {
      const place = places[k];
      if (shown.get(place)?.key === key) {
        place.classList.remove("lp-moved");
        return;
      }
      const [kind, content] = pool[key];
      const was = shown.get(place);
      if (kind === "figure") {
        const figure = was?.figure ?? new Figure(place);
        place.className = "lp-fig";
        shown.set(place, { key, figure });
        figure.show(content);
        changed.push(place);
      } else if (kind === "panel") {
        panel(place, content);
        shown.set(place, { key });
      } else {
        place.innerHTML = content;
        shown.set(place, { key });
        place.classList.toggle("lp-moved", Boolean(was) && content.includes("lp-setting"));
      }
      place.hidden = content === "";
    });
    for (const button of buttons) {
      if (button.closest(".lp-presets")) button.setAttribute("aria-pressed", String(Number(button.dataset.frame) === number));
    }
    return changed;
  }

  const already = document.createElement("span");
  already.className = "lp-quiet";
  already.setAttribute("role", "status");
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const number = Number(button.dataset.frame);
      const same = frames[number].every((key, k) => shown.get(places[k])?.key === key);
      already.textContent = same ? "The controls stand there already." : "";
      if (same) button.after(already);
      if (!same || button.closest(".lp-presets")) bringIntoSight(show(number));
    });
  }
  questionByQuestion(el);
  show(0);
}

/** Scrolls, where less than half of each of these figures is in sight, as far as the first of them needs. */
function bringIntoSight(figures) {
  const inSight = (figure) => {
    const { top, bottom, height } = figure.getBoundingClientRect();
    return Math.min(bottom, innerHeight) - Math.max(top, 0) >= height / 2;
  };
  if (figures.length && !figures.some(inSight)) figures[0].scrollIntoView({ block: "nearest" });
}

/** Shows one question at a time, with buttons to the one before and the next one. */
function questionByQuestion(el) {
  const questions = [...el.querySelectorAll(".lp-question")];
  const go = (number, focus) => {
    questions.forEach((question, k) => (question.hidden = k !== number));
    if (focus) questions[number].querySelector("button").focus();
  };
  questions.forEach((question, k) => {
    const step = (label, to) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.disabled = !questions[to];
      button.addEventListener("click", () => go(to, true));
      return button;
    };
    question.querySelector("button").before(step("Previous", k - 1), step("Next", k + 1));
  });
  if (questions.length) go(0, false);
}

// ---- the hero of the first page ----------------------------------------------------------------------------------------

const STEP = 900; // milliseconds between two patterns

/** A format to choose, its panel of bits, and all its values on a line; it moves by itself until somebody moves it. */
async function hero(el) {
  const parts = await bits;
  const { formats } = contentOf(el);
  const choose = document.createElement("select");
  choose.append(...Object.keys(formats).map((name) => new Option(name)));
  const label = document.createElement("label");
  label.append("Format ", choose);
  const pause = document.createElement("button");
  pause.type = "button";
  const head = document.createElement("div");
  head.className = "lp-hero-head";
  head.append(label, pause);
  const place = document.createElement("div");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  line.setAttribute("class", "lp-hero-line");
  line.setAttribute("role", "img");
  const caption = document.createElement("p");
  caption.className = "lp-quiet";
  caption.textContent = "The line has every number of the format. Far from 0 it is drawn closer together.";
  el.append(head, place, line, caption);
  let model, order, timer;

  function drawLine() {
    const finite = order.filter(([value]) => Number.isFinite(value));
    const far = Math.asinh(finite.at(-1)[0] / finite.find(([value]) => value > 0)[0] / 8);
    const wide = line.clientWidth || 640;
    const x = (value) => wide / 2 + (wide / 2 - 10) * (Math.asinh(value / finite.find(([each]) => each > 0)[0] / 8) / far);
    const now = parts.decode(model.get("format_spec"), new Float64Array(model.get("table").buffer), model.get("pattern"));
    line.setAttribute("viewBox", `0 0 ${wide} 46`);
    line.setAttribute("aria-label", `all ${finite.length} numbers of the format on a line; the panel shows ${parts.show(now)}`);
    const ticks = finite.length > 600 ? finite.filter((_, k) => k % Math.ceil(finite.length / 600) === 0) : finite;
    const marks = ticks.map(([value]) => `M${x(value).toFixed(1)},14V30`).join("");
    const at = Number.isFinite(now) ? `<circle cx="${x(now).toFixed(1)}" cy="22" r="7"/>` : "";
    const [low, high] = [finite[0][0], finite.at(-1)[0]].map((value) => parts.show(value));
    line.innerHTML = `<path d="${marks}"/>${at}<text x="4" y="44">${low}</text><text x="${wide / 2}" y="44" text-anchor="middle">0</text>` +
      `<text x="${wide - 4}" y="44" text-anchor="end">${high}</text>`;
    for (const text of line.querySelectorAll("text")) text.textContent = text.textContent.replace(/\^\{(.*?)\}/, "^$1");
  }

  function move() {
    const now = order.findIndex(([, code]) => code === model.get("pattern"));
    const next = order[(now + Math.max(1, Math.round(order.length / 60))) % order.length];
    model.set({ pattern: next[1], note: {} });
  }

  function play(on) {
    clearInterval(timer);
    timer = on ? setInterval(move, STEP) : undefined;
    pause.textContent = on ? "Pause" : "Move by itself";
    el.dataset.moving = String(on);
  }

  async function start() {
    model = await panel(place, formats[choose.value]);
    order = valuesOf(parts, model.state).filter(([value]) => Number.isFinite(value));
    model.on("change:pattern", drawLine);
    drawLine();
  }

  new ResizeObserver(() => model && drawLine()).observe(el);
  choose.addEventListener("change", start);
  pause.addEventListener("click", () => play(!timer));
  place.addEventListener("pointerdown", () => play(false));
  place.addEventListener("keydown", () => play(false));
  await start();
  play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
}

// ---- all of a page -----------------------------------------------------------------------------------------------------

for (const el of document.querySelectorAll(".lp-recorded")) explorer(el);
for (const el of document.querySelectorAll(".lp-panel")) panel(el, contentOf(el));
for (const el of document.querySelectorAll(".lp-hero")) hero(el);

for (const table of document.querySelectorAll(".bd-article table")) {
  const tell = () => table.classList.toggle("lp-more", table.scrollLeft + table.clientWidth < table.scrollWidth - 2);
  table.addEventListener("scroll", tell);
  new ResizeObserver(tell).observe(table);
}

// Who has thought about a question once need not open each thing that it hides.
const veils = [...document.querySelectorAll("details.lp-veil")];
const asked = (veil) => veil.querySelector("summary").textContent;
for (const veil of veils) {
  veil.addEventListener("toggle", () => {
    if (veil.open) for (const other of veils) if (asked(other) === asked(veil)) other.open = true;
  });
}

for (const el of document.querySelectorAll(".lp-fig")) {
  if (!el.closest(".lp-recorded")) new Figure(el).show(contentOf(el));
}
