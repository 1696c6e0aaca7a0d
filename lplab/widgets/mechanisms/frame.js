// What all mechanisms share: a picture that follows its width, handles for mouse, finger and keys, buttons, steps that
// play, a sentence below that says what it is now. A mechanism's own file stands below this one and hands over a plan:
//
//   export default mechanism({
//     start: (data) => state,                 where it opens
//     look: (data, state) => now,             what is looked up there; the tests compare it with the library
//     height: (width) => pixels,
//     draw: (stage) => (now, state) => {},    draws what stays, returns what draws the rest after each change
//     tell: (now, state, data) => html,       the sentence below
//     controls: (stage) => {},                its buttons, if it has any
//   });
//
// The plan computes no number format: it looks up what lplab has put into `data`.

const SVG = "http://www.w3.org/2000/svg";
const PAUSE = 700; // milliseconds between two steps that play

/** Whether somebody does not want things to move by themselves. */
const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** Sets attributes of an element, and its text. */
function set(el, attributes = {}, text) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) el.removeAttribute(name);
    else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value === true ? "" : value);
  }
  if (text !== undefined && el.textContent !== String(text)) el.textContent = text;
  return el;
}

/** A new element of SVG in `parent`. */
function add(parent, tag, attributes, text) {
  const el = set(document.createElementNS(SVG, tag), attributes, text);
  parent.append(el);
  return el;
}

/** A new element of HTML in `parent`. */
function html(parent, tag, attributes, text) {
  const el = set(document.createElement(tag), attributes, text);
  parent.append(el);
  return el;
}

/** Puts an element of SVG somewhere; one of class lp-glide goes there smoothly. */
const place = (el, x, y) => (el.style.transform = `translate(${x}px, ${y}px)`);

/** From values to pixels; `inverse` leads back. */
function scale([a, b], [from, to]) {
  const at = (value) => from + ((value - a) / (b - a)) * (to - from);
  at.inverse = (pixel) => a + ((pixel - from) / (to - from)) * (b - a);
  return at;
}

/** A number as short text, with a real minus sign. */
const short = (value, digits = 4) => String(Number(value.toPrecision(digits))).replace("-", "−");

/** A share as a percentage: whole from 10 % on, and with one digit after the point below. */
function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1\u00a0%";
  return `${share < 0.0995 ? Number((100 * share).toFixed(1)) : Math.round(100 * share)}\u00a0%`;
}

/** The place of `x` in a sorted list of borders: how many it has reached. */
function rank(borders, x) {
  let [low, high] = [0, borders.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (borders[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** One mechanism on a page. */
class Stage {
  constructor(content, el, plan) {
    this.plan = plan;
    this.data = content.data;
    this.state = plan.start(this.data);
    this.handles = [];
    this.afterwards = []; // what buttons do after each change
    const root = (this.root = html(el, "div", { class: "lp-mechanism lp-untouched", role: "group", "aria-label": content.title }));
    root.dataset.name = content.name;
    for (const [name, colour] of Object.entries(content.colours)) root.style.setProperty(`--lp-${name}`, colour);
    html(root, "p", { class: "lp-mechanism-do" }).innerHTML = content.todo;
    const frame = html(root, "div", { class: "lp-mechanism-picture" });
    this.svg = add(frame, "svg", { role: "group", "aria-label": content.alt });
    this.bar = html(root, "div", { class: "lp-mechanism-controls" });
    this.line = html(root, "p", { class: "lp-mechanism-now", role: "status", "aria-live": "polite" });
    plan.controls?.(this);
    this.bar.hidden = !this.bar.children.length;
    this.listen();
    keepKeys(root);
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(frame);
    this.fit();
  }

  /** Draws everything anew where the width has changed. */
  fit() {
    const width = Math.round(this.svg.parentElement.clientWidth);
    if (!width || width === this.width) return;
    const began = performance.now();
    const focused = this.handles.findIndex(({ el }) => el === document.activeElement);
    this.width = width;
    this.height = this.plan.height(width);
    set(this.svg, { viewBox: `0 0 ${width} ${this.height}`, width, height: this.height });
    this.svg.replaceChildren();
    this.handles = [];
    this.update = this.plan.draw(this);
    this.show();
    this.handles[focused]?.el.focus({ preventScroll: true });
    performance.measure(`lp-mechanism ${this.root.dataset.name}`, { start: began });
  }

  /** Changes the state, and shows it. */
  change(changes) {
    Object.assign(this.state, changes);
    this.show();
  }

  show() {
    if (!this.update) return; // not in sight yet
    const { plan, data, state } = this;
    const now = (this.now = plan.look(data, state));
    this.update(now, state);
    for (const handle of this.handles) {
      const [x, y] = handle.point(now, state);
      place(handle.el, x, y);
      const [low, high] = handle.range(now, state);
      const value = handle.value(now, state);
      set(handle.el, { "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": value, "aria-valuetext": handle.text(now, state) });
    }
    for (const each of this.afterwards) each(now, state);
    const told = plan.tell(now, state, data);
    if (this.line.innerHTML !== told) this.line.innerHTML = told;
    this.root.dataset.shown = JSON.stringify([now, state]); // for tests, which compare it with the library
  }

  /**
   * Something that is dragged, and that arrow keys move. All its places are whole numbers, or multiples of `by`.
   *
   * name: for screen readers · range(now, state): lowest and highest place · value(now, state): where it is ·
   * text(now, state): that in words · point(now, state): its pixels · drag(x, y, now, state): the place at these pixels ·
   * set(value): the change of the state · shape(g): draws it around 0, 0 · by, page: what an arrow and Page Up move ·
   * surface: whether the picture around moves it, too, or function (x, y) that says where
   */
  handle(options) {
    const el = add(options.parent ?? this.svg, "g", { class: "lp-handle", role: "slider", tabindex: 0, "aria-label": options.name });
    if (options.upright) set(el, { "aria-orientation": "vertical" });
    add(el, "circle", { class: "lp-reach", r: 22 });
    options.shape(el);
    const handle = { by: 1, page: 10, ...options, el };
    el.addEventListener("keydown", (event) => {
      const [low, high] = handle.range(this.now, this.state);
      const at = handle.value(this.now, this.state);
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: handle.page, PageDown: -handle.page }[event.key];
      const to = { Home: low, End: high }[event.key] ?? (by && at + by * handle.by);
      if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.touched();
      this.change(handle.set(clamp(to, low, high)));
    });
    this.handles.push(handle);
    return handle;
  }

  /** Mouse and finger: a handle is held where it was seized, so that it does not jump. */
  listen() {
    const { svg } = this;
    let held, offset;
    const pixels = (event) => {
      const { left, top, width } = svg.getBoundingClientRect();
      const zoom = this.width / width;
      return [(event.clientX - left) * zoom, (event.clientY - top) * zoom];
    };
    const move = (event) => {
      const [x, y] = pixels(event);
      const [low, high] = held.range(this.now, this.state);
      const value = held.drag(x - offset[0], y - offset[1], this.now, this.state);
      if (Number.isFinite(value)) this.change(held.set(clamp(Math.round(value / held.by) * held.by, low, high)));
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const [x, y] = pixels(event);
      const own = this.handles.find(({ el }) => el.contains(event.target));
      const near = (surface) => surface === true || (typeof surface === "function" && surface(x, y));
      held = own ?? this.handles.find(({ surface }) => near(surface));
      if (!held) return;
      const [px, py] = held.point(this.now, this.state);
      offset = own ? [x - px, y - py] : [0, 0];
      this.touched();
      svg.setPointerCapture(event.pointerId);
      this.root.classList.add("lp-held");
      set(this.line, { "aria-busy": true }); // one reading at the end, not one for each pixel
      held.el.focus({ preventScroll: true });
      if (!own && event.pointerType !== "touch") move(event); // a finger beside a handle may begin to scroll
    });
    svg.addEventListener("mousedown", (event) => held && event.preventDefault()); // the handle keeps the focus
    svg.addEventListener("pointermove", (event) => held && move(event));
    for (const end of ["pointerup", "pointercancel"]) {
      svg.addEventListener(end, () => {
        held = undefined;
        this.root.classList.remove("lp-held");
        set(this.line, { "aria-busy": null });
      });
    }
  }

  /** What moves by itself ends when somebody takes over, and so does the sign that says what can be held. */
  touched() {
    this.root.classList.remove("lp-untouched");
    this.pause?.();
  }

  /** A button; `pressed(now, state)` makes it a switch, `off(now, state)` says when it cannot be pressed. */
  button(label, action, { pressed, off, name } = {}) {
    const el = html(this.bar, "button", { type: "button", "aria-label": name ?? null }, label);
    el.addEventListener("click", () => {
      this.touched();
      this.change(action(this.now, this.state));
    });
    this.afterwards.push((now, state) => {
      if (pressed) set(el, { "aria-pressed": String(pressed(now, state)) });
      if (off) set(el, { disabled: off(now, state) });
    });
    return el;
  }

  /** Back, step and play. `step(direction, now, state)` is the change of one step, or undefined at the end. */
  steps(step, { back = "Back", forth = "Step", play = "Play", pause = PAUSE } = {}) {
    const can = (direction) => (now, state) => step(direction, now, state) === undefined;
    this.button(back, (now, state) => step(-1, now, state), { off: can(-1) });
    this.button(forth, (now, state) => step(1, now, state), { off: can(1) });
    const button = html(this.bar, "button", { type: "button", class: "lp-play" }, play);
    let timer;
    this.pause = () => {
      clearInterval(timer);
      timer = undefined;
      set(button, { "aria-pressed": "false" }, play);
    };
    const beat = () => {
      const changes = this.root.isConnected ? step(1, this.now, this.state) : undefined;
      if (changes === undefined) this.pause();
      else this.change(changes);
    };
    button.addEventListener("click", () => {
      if (timer) return this.pause();
      this.root.classList.remove("lp-untouched");
      timer = setInterval(beat, pause);
      set(button, { "aria-pressed": "true" }, "Pause");
      beat();
    });
    this.afterwards.push((now, state) => set(button, { disabled: !timer && can(1)(now, state) }));
    this.pause();
  }

  /** Calls `frame` with 0 to 1 within some milliseconds; with 1 alone where nothing shall move. */
  animate(frame, milliseconds = 350) {
    cancelAnimationFrame(this.moving);
    if (isCalm()) return frame(1);
    const began = performance.now();
    const go = (time) => {
      const share = clamp((time - began) / milliseconds, 0, 1);
      frame(share * share * (3 - 2 * share)); // slow at both ends
      if (share < 1) this.moving = requestAnimationFrame(go);
    };
    go(began);
  }

  remove() {
    this.pause?.();
    cancelAnimationFrame(this.moving);
    this.watch.disconnect();
  }
}

/** The sign of all handles: an orange pill with two small arrows, `upright` for up and down; returns its text. */
function pill(g, width = 64, upright = false) {
  const [left, right] = [9 - width / 2, width / 2 - 9];
  const arrows = upright ? `M${left - 3},-3l4,-4l4,4M${left - 3},3l4,4l4,-4` : `M${left},-4l-4,4l4,4M${right},-4l4,4l-4,4`;
  add(g, "rect", { class: "lp-pill", x: -width / 2, y: -14, width, height: 28, rx: 14 });
  add(g, "path", { class: `lp-arrows${upright ? " upright" : ""}`, d: arrows });
  return add(g, "text", { class: "lp-pill-text", x: upright ? 6 : 0, y: 5 });
}

/** A mechanism as a widget: of anywidget in notebooks, and on the site with plain data in place of a model. */
function mechanism(plan) {
  return {
    render({ model, el }) {
      const stage = new Stage(model.get("content"), el, plan);
      return () => stage.remove();
    },
  };
}
