// Controls of an explorer on a page without a kernel: they move over what was recorded when the page was made.
//
// A recording (docs/_ext/moves.py) has frames. Of each one it keeps what differs from the first. A control moves from the
// frame that is shown to the one that the same move led to in Python. Where that move was not recorded, it is the frame
// with this place of the control that is closest in all others, and a line says which of them went elsewhere. A frame
// that refuses its controls is never such a closest one.

const NEVER = -1;

/** Frames of an explorer, and the moves between them. */
class Recording {
  constructor({ paths, pool, base, frames, moves, refused }) {
    Object.assign(this, { paths, pool, base, frames, moves, refused: new Set(refused) });
    this.pathsOf = []; // of each leaf
    paths.forEach(([leaf], k) => (this.pathsOf[leaf] ??= []).push(k));
    this.places = new Map(); // of each control, by its number: the paths of its place and its options
    for (const own of this.pathsOf) {
      const find = (name) => own.find((k) => paths[k].length === 3 && paths[k][2] === name);
      const number = find("control");
      if (number === undefined) continue;
      const values = [base, ...frames.map((_, k) => this.row(k))].map((row) => row[number]);
      this.places.set(pool[values.find((each) => each !== NEVER)], { at: find("at"), options: find("options") });
    }
    this.shown = frames.map((_, k) => this.chosen(this.row(k)));
  }

  /** A value's number for each path. */
  row(frame) {
    const row = this.base.slice();
    const changes = this.frames[frame];
    for (let k = 0; k < changes.length; k += 2) row[changes[k]] = changes[k + 1];
    return row;
  }

  /** What each control shows in a frame: its option, and its place among the options. */
  chosen(row) {
    return new Map([...this.places].map(([control, { at, options }]) => {
      const place = this.pool[row[at]] ?? NEVER;
      return [control, { place, option: this.pool[row[options]]?.[place] }];
    }));
  }

  /** Of two rows, the numbers of the leaves that differ. */
  changed(before, after) {
    const leaves = new Set();
    after.forEach((value, k) => value !== before?.[k] && leaves.add(this.paths[k][0]));
    return leaves;
  }

  /** Kind and content of a leaf. */
  leaf(row, leaf) {
    const whole = {};
    for (const k of this.pathsOf[leaf]) {
      if (row[k] === NEVER) continue;
      const path = this.paths[k];
      let inside = whole;
      for (let depth = 1; depth < path.length - 1; depth++) inside = inside[path[depth]] ??= typeof path[depth + 1] === "number" ? [] : {};
      inside[path.at(-1)] = this.pool[row[k]];
    }
    return [whole.kind, whole.content];
  }

  /** Whether some frame has a control at an option. */
  has(control, option) {
    this.known ??= new Map();
    if (!this.known.has(control)) this.known.set(control, new Set(this.shown.map((each) => each.get(control)?.option)));
    return this.known.get(control).has(option);
  }

  /** The frame that a move leads to, and the controls that it moves although they should stay. */
  move(frame, control, place, option) {
    const exact = this.moves[frame]?.[control]?.[place] ?? NEVER;
    if (exact !== NEVER) return { frame: exact, astray: [] };
    const before = this.shown[frame];
    const astray = (after) => [...this.places.keys()].filter((each) => each !== control && before.get(each).option !== after.get(each).option);
    let [best, least] = [NEVER, Infinity];
    this.shown.forEach((after, number) => {
      if (after.get(control).option !== option || this.refused.has(number)) return;
      const far = astray(after).reduce((sum, each) => sum + 1 + Math.min(0.9, Math.abs(after.get(each).place - before.get(each).place) / 100), 0);
      if (far < least) [best, least] = [number, far];
    });
    return { frame: best, astray: best === NEVER ? [] : astray(this.shown[best]) };
  }
}

async function load(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return new Recording(await new Response(answer.body.pipeThrough(new DecompressionStream("gzip"))).json());
}

// ---- controls ----------------------------------------------------------------------------------------------------------

const make = (name, className, text = "") => {
  const el = document.createElement(name);
  el.className = className;
  el.textContent = text;
  return el;
};

/** A control in `place`; `moved` is told the place that it is moved to. */
export class Control {
  constructor(place, content, moved) {
    Object.assign(this, { place, moved, kind: content.kind });
    place.className = `lp-control lp-control-${content.kind}${content.long ? " lp-long" : ""}`;
    place.title = content.tip;
    this.label = make(content.kind === "buttons" ? "span" : "label", "lp-control-label");
    this.readout = make("output", "lp-control-value");
    place.replaceChildren(this.label, ...this[content.kind]());
    if (this.input) this.label.htmlFor = this.input.id = `lp-control-${++Control.made}`;
    this.show(content);
  }

  slider() {
    this.input = make("input", "");
    this.input.type = "range";
    this.input.min = 0;
    this.input.step = 1;
    this.input.addEventListener("input", () => this.go(Number(this.input.value)));
    return [this.input, this.readout];
  }

  list() {
    this.input = make("select", "");
    this.input.addEventListener("change", () => this.go(this.input.selectedIndex));
    return [this.input];
  }

  check() {
    this.input = make("input", "");
    this.input.type = "checkbox";
    this.input.addEventListener("change", () => this.go(Number(this.input.checked)));
    return [this.input];
  }

  buttons() {
    this.group = make("span", "lp-control-buttons");
    this.group.setAttribute("role", "group");
    return [this.group];
  }

  go(place) {
    this.moved(this.content, place);
  }

  /** Shows what a frame says of it; `has` tells whether an option is recorded. */
  show(content, has = () => true) {
    const { label, options, at, off, unit, silent } = (this.content = content);
    this.label.textContent = label;
    this.place.classList.toggle("lp-off", off);
    if (this.kind === "buttons") {
      this.group.setAttribute("aria-label", label);
      while (this.group.children.length > options.length) this.group.lastChild.remove();
      options.forEach((option, k) => {
        let button = this.group.children[k];
        if (!button) {
          button = make("button", "");
          button.type = "button";
          button.addEventListener("click", () => this.go(k));
          this.group.append(button);
        }
        button.textContent = option;
        button.disabled = off || !has(option);
        button.title = has(option) ? "" : "needs JupyterLab";
        button.setAttribute("aria-pressed", String(k === at));
      });
      return;
    }
    this.input.disabled = off;
    if (this.kind === "check") this.input.checked = at === 1;
    if (this.kind === "slider") {
      this.input.max = options.length - 1;
      this.input.value = at;
      const number = silent ? undefined : options[at]; // the label of a silent slider says it
      this.readout.textContent = number ?? "";
      this.input.setAttribute("aria-valuetext", number ? `${number} ${unit}`.trim() : label);
      this.input.style.setProperty("--lp-share", `${(100 * at) / Math.max(1, options.length - 1)}%`);
    }
    if (this.kind === "list") {
      const shown = options.map((option) => (has(option) ? option : `${option} (needs JupyterLab)`));
      if (shown.length !== this.input.length || shown.some((text, k) => this.input.options[k].text !== text)) {
        this.input.replaceChildren(...shown.map((text) => new Option(text)));
        options.forEach((option, k) => (this.input.options[k].disabled = !has(option)));
      }
      this.input.selectedIndex = at;
    }
  }
}
Control.made = 0;

// ---- explorers ---------------------------------------------------------------------------------------------------------

/**
 * An explorer in `el`.
 *
 * @param el - its boxes, with a numbered place for each leaf, its buttons, and its first frame as JSON.
 * @param address - of its recording.
 * @param parts - makes what is no control: `figure(place)` with `show(content)`, and `panel(place, content)`.
 */
export function explorer(el, address, parts) {
  const { leaves } = JSON.parse(el.querySelector(":scope > script[type='application/json']").textContent);
  const places = [...el.querySelectorAll("[data-leaf]")];
  const buttons = [...el.querySelectorAll("button[data-frame]")];
  const told = el.querySelector(".lp-told");
  const members = new Map(); // of each place that has one: its control or its figure
  let recording, loading, row, asked;
  let now = Number(buttons.find((button) => button.closest(".lp-presets")).dataset.frame);

  function showLeaf(k, [kind, content], first) {
    const place = places[k];
    const member = members.get(place);
    if (kind === "control") {
      const has = (option) => !recording || recording.has(content.control, option);
      if (member instanceof Control) member.show(content, has);
      else members.set(place, new Control(place, content, moved));
      place.classList.toggle("lp-moved", !first);
    } else if (kind === "figure") {
      const figure = member ?? parts.figure(place);
      members.set(place, figure);
      figure.show(content);
      place.classList.toggle("lp-short", (content.layout.height ?? 360) <= innerHeight / 2);
    } else if (kind === "panel") parts.panel(place, content);
    else {
      place.className = "";
      members.delete(place);
      place.innerHTML = content ?? "";
    }
    place.hidden = kind === "text" && !content;
  }

  /** Shows a frame; returns the figures that change. */
  function show(frame) {
    const next = recording.row(frame);
    const changed = [...recording.changed(row, next)];
    for (const place of el.querySelectorAll(".lp-moved")) place.classList.remove("lp-moved");
    for (const k of changed) showLeaf(k, recording.leaf(next, k), false);
    [row, now] = [next, frame];
    for (const button of buttons) {
      if (button.closest(".lp-presets")) button.setAttribute("aria-pressed", String(Number(button.dataset.frame) === frame));
    }
    el.dataset.frame = frame;
    return changed.map((k) => places[k]).filter((place) => place.classList.contains("lp-fig"));
  }

  /** Shows the controls and the figure that a question needs; all others wait behind a line each. */
  function fold({ controls, figure }) {
    if (!controls) return;
    const wanted = controls.split(" ").map(Number);
    const isControl = (place) => members.get(place) instanceof Control;
    const [side, main] = [".lp-side", ".lp-main"].map((name) => [...el.querySelectorAll(`${name} [data-leaf]`)]);
    behind(".lp-side", "More controls", side, (place) => isControl(place) && wanted.includes(members.get(place).content.control));
    behind(".lp-main", "More figures", main.filter((place) => place.classList.contains("lp-fig")), (place) => place.dataset.leaf === figure);
  }

  /** Puts these places, in their order, on top of a box, or behind a line at its end. */
  function behind(name, label, those, isWanted) {
    const box = el.querySelector(name);
    let details = box.querySelector(":scope > .lp-behind");
    if (!details) {
      details = make("details", "lp-behind");
      details.append(make("summary", "", label), make("div", ""));
      details.addEventListener("toggle", () => {
        if (details.open) for (const place of details.querySelectorAll(".lp-fig")) members.get(place).draw();
      });
      box.append(details);
      box.prepend(make("div", "lp-needed"));
    }
    const inOrder = [...those].sort((a, b) => a.dataset.leaf - b.dataset.leaf);
    for (const place of inOrder) (isWanted(place) ? box.querySelector(":scope > .lp-needed") : details.lastChild).append(place);
    details.hidden = !details.querySelector("[data-leaf]:not([hidden])");
    for (const place of box.querySelectorAll(":scope > .lp-needed > .lp-fig")) members.get(place).draw();
  }

  /** The recording, loaded once. */
  function ready() {
    loading ??= load(address).then((loaded) => {
      recording = loaded;
      row = recording.row(now);
      for (const [k, place] of places.entries()) {
        if (members.get(place) instanceof Control) showLeaf(k, recording.leaf(row, k), true);
      }
      el.dataset.ready = "true";
    }, (error) => {
      loading = undefined; // the next move may try again
      told.textContent = "What was recorded of these controls did not load.";
      throw error;
    });
    return loading;
  }

  /** A control was moved to a place; of several moves while the recording loads, the last one counts. */
  async function moved(content, place) {
    const first = asked === undefined;
    asked = { content, place };
    if (!first) return;
    try {
      await ready();
      const { content: last, place: wanted } = asked;
      go(last, wanted);
    } finally {
      asked = undefined;
    }
  }

  function go({ control, label, options, at, all = options.length }, place) {
    let wanted = place;
    if (!recording.has(control, options[wanted])) { // of a slider: the closest place that is
      const there = options.map((_, k) => k).filter((k) => recording.has(control, options[k]));
      wanted = there.sort((a, b) => Math.abs(a - place) - Math.abs(b - place))[0] ?? at;
    }
    const { frame, astray } = recording.move(now, control, wanted, options[wanted]);
    const before = recording.shown[now];
    show(frame === NEVER ? now : frame);
    const own = [...members.values()].find((each) => each instanceof Control && each.content.control === control);
    own?.show(own.content, (option) => recording.has(control, option)); // where it had to stay
    const contents = new Map([...members.values()].filter((each) => each instanceof Control).map((each) => [each.content.control, each.content]));
    const others = astray.filter((each) => contents.has(each) && before.get(each).option !== undefined && recording.shown[now].get(each).option !== undefined);
    const sentences = [];
    if (wanted !== place) sentences.push(`${options[place]} was not recorded: ${label} needs JupyterLab for it.`);
    if (others.length) {
      const went = others.map((each) => {
        const { label: its, silent } = contents.get(each);
        return silent ? `now ${its}` : `${its} went to ${recording.shown[now].get(each).option}`;
      });
      sentences.push(`Not all places were recorded together: ${went.join(", ")}. In JupyterLab they move freely.`);
    } else if (all > options.length) sentences.push(`${label} snaps to ${options.length} recorded places; in JupyterLab it has ${all}.`);
    told.textContent = sentences.join(" ");
  }

  leaves.forEach((leaf, k) => showLeaf(k, leaf, true));
  for (const place of el.querySelectorAll(".lp-side [data-leaf]:has(> .lp-heading)")) { // buttons below it are elsewhere
    let next = place.nextElementSibling;
    while (next && (next.hidden || !next.childNodes.length || !next.querySelector("*:not([hidden])"))) next = next.nextElementSibling;
    place.hidden = !next || Boolean(next.querySelector(":scope > .lp-heading"));
  }
  for (const question of el.querySelectorAll(".lp-question")) question.fold = () => fold(question.dataset);
  const already = make("span", "lp-quiet");
  already.setAttribute("role", "status");
  for (const button of buttons) {
    button.addEventListener("click", async () => {
      const isPreset = button.closest(".lp-presets");
      await ready();
      const frame = Number(button.dataset.frame);
      const same = frame === now;
      told.textContent = "";
      already.textContent = same && !isPreset ? "The controls stand there already." : "";
      if (same && !isPreset) button.after(already);
      if (!same || isPreset) parts.bringIntoSight(same ? places.filter((place) => place.classList.contains("lp-fig")) : show(frame));
    });
  }
  for (const answer of el.querySelectorAll(".lp-question details")) { // an open answer speaks of what is seen
    answer.addEventListener("toggle", async () => {
      if (!answer.open) return;
      await ready();
      told.textContent = already.textContent = "";
      show(Number(answer.closest(".lp-question").querySelector("[data-frame]").dataset.frame));
    });
  }
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    ready();
  }, { rootMargin: "200px" });
  watch.observe(el);
}
