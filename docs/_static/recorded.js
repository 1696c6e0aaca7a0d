// What moves on the pages of the site, without a kernel: mechanisms, figures, panels of bits, and explorers at recorded
// positions.

import { explorer } from "./moves.js";

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

const { fitted, fittedTraces, headed } = await import(new URL("figure_parts.js", here));

/** What plotly's view of a figure is in a notebook, as far as figure_parts.js asks: it draws a figure that moves down. */
const viewOf = (figure) => ({
  model: { get: () => figure.content.layout },
  lpFit() {},
  lpMove: () => figure.draw(),
});

/** A figure's element: draws what it is given, once it is in sight. */
class Figure {
  constructor(el) {
    this.el = el;
    el.classList.add("lp-fig");
    this.plot = document.createElement("div");
    el.append(this.plot);
    el.on = (...listener) => this.plot.on(...listener); // figure_parts.js knows one element for both
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
    this.el.setAttribute("role", "img");
    this.el.setAttribute("aria-label", content.alt || "figure");
    this.el.style.minHeight = `${content.layout.height ?? 360}px`;
    this.head(content.heading);
    await this.inSight;
    if (this.content === content) await this.draw(); // otherwise another one came meanwhile
  }

  /** Titles and subtitles, which are text of the page. */
  head(heading) {
    this.heading = heading ?? {};
    if (this.retell) this.retell();
    else if (heading?.title || heading?.panels) {
      const model = { get: () => this.heading, on: (_, retell) => (this.retell = retell), off() {} };
      headed(model, this.el);
    }
  }

  async draw() {
    if (!this.el.clientWidth) return; // behind a line; it is drawn when that opens
    const plotly = await loadPlotly();
    const { data, layout } = structuredClone(this.content);
    const settings = { responsive: true, displaylogo: false, displayModeBar: false };
    await plotly.react(this.plot, fittedTraces(this.el, data), { ...fitted(this.el, layout), width: undefined, autosize: true }, settings);
    if (this.el.dataset.drawn) return;
    this.el.dataset.drawn = "true";
    this.el.lpHasDrawn?.(viewOf(this));
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

// ---- explorers ---------------------------------------------------------------------------------------------------------

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
    questions[number].fold?.();
    if (focus) questions[number].querySelector(":scope > button").focus();
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
    question.querySelector(":scope > button").before(step("Previous", k - 1), step("Next", k + 1));
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

for (const el of document.querySelectorAll(".lp-recorded")) {
  const address = new URL(`recordings/${el.dataset.recording}`, here);
  explorer(el, address, { figure: (place) => new Figure(place), panel, bringIntoSight });
  questionByQuestion(el);
}
for (const el of document.querySelectorAll(".lp-panel")) panel(el, contentOf(el));
for (const el of document.querySelectorAll(".lp-hero")) hero(el);

for (const table of document.querySelectorAll(".bd-article :is(table, pre)")) {
  const tell = () => table.classList.toggle("lp-more", table.scrollLeft + table.clientWidth < table.scrollWidth - 2);
  table.addEventListener("scroll", tell);
  new ResizeObserver(tell).observe(table);
}

// Who has thought about a question once need not open each thing that it hides.
const veils = [...document.querySelectorAll("details.lp-veil")];
for (const veil of veils) {
  veil.addEventListener("toggle", () => {
    if (!veil.open) return;
    uncover(veil.dataset.question);
    for (const other of veils) if (other.dataset.question === veil.dataset.question) other.open = true;
  });
}

// An explorer that opens at an answer says it once somebody has guessed, opened a fold of the question, or moved something.
const covered = [...document.querySelectorAll(".lp-covered")];
function uncover(question) {
  for (const el of covered) if (el.dataset.question === question) el.classList.remove("lp-covered");
}
for (const el of covered) {
  for (const event of ["click", "input"]) el.addEventListener(event, () => uncover(el.dataset.question));
}

for (const el of document.querySelectorAll(".lp-fig")) {
  if (!el.closest(".lp-recorded")) new Figure(el).show(contentOf(el));
}

// A guess is kept in this browser. It opens the answer, and the tables that wait for it.
for (const ask of document.querySelectorAll(":is(.lp-ask, .lp-question):has(form)")) {
  const { question } = ask.dataset;
  const form = ask.querySelector("form");
  const place = `lplab-guess:${question}`;
  const tell = (guess) => {
    ask.querySelector(".lp-said").textContent = `You said: ${guess}. `;
    for (const each of document.querySelectorAll("details[data-question]")) {
      if (each.dataset.question === question) each.open = true;
    }
    ask.querySelector(".lp-answer").open = true;
    uncover(question);
  };
  const kept = localStorage.getItem(place);
  if (kept !== null) {
    for (const field of form.elements) {
      if (field.type === "radio") field.checked = field.value === kept;
      else if (field.type === "text") field.value = kept;
    }
    tell(kept);
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const guess = new FormData(form).get("guess").trim();
    localStorage.setItem(place, guess);
    tell(guess);
  });
}
