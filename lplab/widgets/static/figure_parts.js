// What live_figure.js adds to plotly's view of a figure: its heading, and changes that are drawn with as little work as
// they need. It comes once per page, in the widget that all figures share.
//
// Plotly's update draws a whole figure. Here a change is taken apart first: numbers and words of traces are drawn by
// plotly's own functions for their layers; shapes are moved; of an axis that changes, plotly is told exactly what. Where a
// change is anything else, or this plotly keeps a figure in another way, plotly's update draws it, as it always did.

// ---- changes, drawn once a frame ------------------------------------------------------------------------------------

const AT_REST = 250; // milliseconds without a change, after which a figure that is out of sight is drawn, too

/** Makes plotly's view collect changes, and draw them as little as it can. */
export function drawOnceAFrame(prototype) {
  const drawAll = prototype.do_update; // plotly's own: it reads the change from the model
  prototype.do_update = function () {
    const update = this.model.get("_py2js_update");
    if (update === null) return;
    const waiting = (this.lpWaiting ??= { traces: new Map(), layout: {}, drawn: false, timer: 0 });
    collect(waiting, update, this.model._normalize_trace_indexes(update.style_traces));
    clearTimeout(waiting.timer);
    const draw = () => {
      clearTimeout(waiting.timer);
      this.el.lpShow = undefined;
      if (waiting.traces.size || Object.keys(waiting.layout).length) drawChanges(this, take(waiting), drawAll);
    };
    if (this.el.lpOutOfSight) {
      this.el.lpShow = draw;
      waiting.timer = setTimeout(draw, AT_REST);
    } else if (!waiting.drawn) {
      waiting.drawn = true; // what comes before this is painted waits for the next frame
      requestAnimationFrame(() => {
        waiting.drawn = false;
        draw();
      });
      draw();
    }
  };
}

/** Adds a message's changes to those that wait; a later value replaces an earlier one. */
function collect(waiting, { style_data, layout_data }, traces) {
  for (const [name, values] of Object.entries(style_data ?? {})) {
    if (name.startsWith("_")) continue; // a mark that another view of the figure has left
    traces.forEach((trace, k) => {
      const value = Array.isArray(values) ? values[k % values.length] : values;
      if (value === undefined) return;
      if (!waiting.traces.has(trace)) waiting.traces.set(trace, {});
      waiting.traces.get(trace)[name] = value;
    });
  }
  Object.assign(waiting.layout, layout_data);
}

function take(waiting) {
  const { traces, layout } = waiting;
  waiting.traces = new Map();
  waiting.layout = {};
  return { traces, layout };
}

function drawChanges(view, { traces, layout }, drawAll) {
  // plotly takes the text out of an empty word, and finds none where the word comes back
  for (const word of view.el.querySelectorAll("g.textpoint")) if (!word.firstChild) word.remove();
  const changed = layoutChanges(view.el, layout);
  const parts = changed && drawParts(view.el, traces, changed);
  if (parts) {
    if (!Object.keys(changed.axes).length) return;
    traces = new Map(); // they are drawn already, or will be together with their axes
    layout = changed.axes;
  }
  const names = new Set([...traces.values()].flatMap(Object.keys));
  const style_data = {};
  for (const name of names) style_data[name] = [...traces.values()].map((change) => change[name]);
  const update = { style_data, layout_data: layout, style_traces: [...traces.keys()] };
  const once = Object.create(view);
  once.model = { get: () => update, _normalize_trace_indexes: (indexes) => indexes };
  drawAll.call(once);
  parts?.later();
}

/**
 * Draws what of a change can be drawn by itself; null, with nothing changed, where plotly must draw the figure. What is
 * drawn after plotly has moved the axes is `later`.
 */
function drawParts(gd, traces, { axes, shapes }) {
  const moves = shapes ? movedShapes(gd, shapes) : [];
  const plots = moves && layersOf(gd, traces);
  if (!plots) return null;
  const moving = Object.keys(axes).some((name) => name.endsWith(".range")); // plotly draws all traces, too
  const move = () => moves.forEach((each) => each());
  if (!moving) move();
  drawTraces(gd, traces, plots, !moving);
  return { later: () => moving && move() };
}

const isArray = (value) => Array.isArray(value) || ArrayBuffer.isView(value);
const plain = (value) => JSON.stringify(value, (_, part) => (ArrayBuffer.isView(part) ? Array.from(part) : part));
const alike = (a, b) => plain(a ?? null) === plain(b ?? null);

const AXIS = new Set(["range", "tickvals", "ticktext", "nticks", "tickformat", "showgrid"]); // plotly draws the axis alone
const FILLED_IN = new Set(["autorange", "type"]); // by plotly, into the layout that it was given

/** What differs in a layout: properties of axes, by their full names, and shapes; null where more than that does. */
function layoutChanges(gd, layout) {
  const axes = {};
  for (const [name, value] of Object.entries(layout)) {
    const old = gd.layout[name];
    if (name === "shapes" || alike(old, value)) continue;
    if (!/^[xy]axis\d*$/.test(name) || !old || !value) return null;
    for (const part of new Set([...Object.keys(old), ...Object.keys(value)])) {
      if (alike(old[part], value[part]) || (FILLED_IN.has(part) && !(part in value))) continue;
      if (AXIS.has(part) && value[part] != null) axes[`${name}.${part}`] = value[part];
      else if (part === "title" && alike({ ...old.title, text: "" }, { ...value.title, text: "" })) axes[`${name}.title.text`] = value.title.text;
      else return null;
    }
  }
  return { axes, shapes: layout.shapes };
}

// ---- shapes that move -----------------------------------------------------------------------------------------------

const ENDS = ["x0", "x1", "y0", "y1"];

/** Functions that move each shape to its new place; null where that is not all, or plotly draws them in another way. */
function movedShapes(gd, shapes) {
  const full = gd._fullLayout?.shapes;
  if (!isArray(shapes) || full?.length !== shapes.length || gd.layout.shapes?.length !== shapes.length) return null;
  const moves = [];
  for (const [k, shape] of shapes.entries()) {
    const old = gd.layout.shapes[k];
    if (alike(old, shape)) continue;
    const still = ({ x0, x1, y0, y1, visible, ...rest }) => rest;
    const find = () => gd.querySelector(`.shapelayer path[data-index="${k}"]`);
    const then = find() && outline(gd, full[k]);
    if (!then || !alike(still(old), still(shape)) || !sameOutline(find().getAttribute("d"), then)) return null;
    moves.push(() => {
      const [now, path] = [gd._fullLayout.shapes[k], find()]; // plotly may have made them anew
      gd.layout.shapes[k] = shape;
      for (const end of ENDS) if (end in shape) now[end] = shape[end];
      path.setAttribute("d", outline(gd, now));
      path.style.display = (shape.visible ?? true) === true ? "" : "none";
    });
  }
  return moves;
}

/** The path of a line or a rectangle, as plotly writes it. */
function outline(gd, { type, xref, yref, x0, x1, y0, y1, xsizemode, ysizemode, x0shift, x1shift, y0shift, y1shift }) {
  if (xsizemode !== "scaled" || ysizemode !== "scaled" || x0shift || x1shift || y0shift || y1shift) return null;
  const [x, y] = [pixels(gd, xref), pixels(gd, yref)];
  if (!x || !y) return null;
  const [left, right, top, bottom] = [x(x0), x(x1), y(y0), y(y1)];
  if (type === "line") return `M${left},${top}L${right},${bottom}`;
  return type === "rect" ? `M${left},${top}H${right}V${bottom}H${left}Z` : null;
}

/** The function from a place to pixels that a shape's reference stands for: "paper", "x2", "y domain". */
function pixels(gd, reference) {
  const { _size: size } = gd._fullLayout;
  const flip = (share) => (reference[0] === "y" ? 1 - share : share);
  if (reference === "paper") return null; // x or y: cannot be told apart
  const [id, domain] = String(reference).split(" ");
  const axis = gd._fullLayout[`${id[0]}axis${id.slice(1)}`];
  if (!size || !axis || !["linear", "log"].includes(axis.type)) return null;
  if (domain) return (share) => axis._offset + axis._length * flip(share);
  return (value) => axis._offset + axis.d2p(value);
}

/** Whether two paths are the same to a hundredth of a pixel. */
function sameOutline(a, b) {
  const numbers = (path) => (path ?? "").match(/-?[\d.]+(?:e-?\d+)?/g)?.map(Number) ?? [];
  const [one, other] = [numbers(a), numbers(b)];
  return one.length === other.length && one.every((value, k) => Math.abs(value - other[k]) < 0.01);
}

// ---- traces alone ---------------------------------------------------------------------------------------------------

const LAYERS = { scatter: "scatterlayer", bar: "barlayer", heatmap: "heatmaplayer" };
const NUMBERS = ["x", "y", "z", "base"];
const NAMES = new Set([...NUMBERS, "text", "hovertext", "customdata", "hovertemplate", "textposition", "visible", "marker"]);
const MARKER = new Set(["size", "color", "symbol", "opacity"]);

/** The layers of traces that a change draws anew; null where plotly must draw it: more than numbers and words changes. */
function layersOf(gd, changes) {
  const layout = gd._fullLayout;
  if (!gd.calcdata || !layout?._plots || gd._promises?.length || layout._zindices?.length !== 1) return null;
  const layers = new Map();
  for (const [k, change] of changes) {
    const trace = gd._fullData[k];
    const plot = layout._plots[trace?.xaxis + trace?.yaxis];
    if (!plot || !isSimple(trace, plot)) return null;
    if (!Object.entries(change).every(([name, value]) => fits(gd.data[k], name, value))) return null;
    const shown = isShown(gd.data[k], change);
    if (!shown && trace.visible !== true) continue;
    // plotly fills in nothing of a trace that it does not draw; a legend shows which ones it draws
    if (shown !== (trace.visible === true) && (layout.showlegend || (shown && !trace.lpComplete))) return null;
    const group = plot.plot?.select?.(`g.${LAYERS[trace.type]}`);
    if (!group || group.empty()) return null;
    layers.set(`${trace.xaxis}${trace.yaxis} ${trace.type}`, { plot, group, type: trace.type, module: trace._module });
  }
  return [...layers.values()];
}

/** Changes traces, and draws their layers: no axis, no margin, no other layer. */
function drawTraces(gd, changes, layers, now) {
  const layout = gd._fullLayout;
  const isIn = (trace, { type, plot }) => trace.type === type && layout._plots[trace.xaxis + trace.yaxis] === plot;
  for (const [k, change] of changes) assign(gd.data[k], gd._fullData[k], change);
  for (const layer of layers) {
    const together = layer.type === "bar"; // bars of a subplot are placed together
    gd._fullData.forEach((trace, k) => {
      if (isIn(trace, layer) && (together || changes.has(k))) calculate(gd, trace, k);
    });
    if (together) layer.module.crossTraceCalc(gd, layer.plot);
  }
  if (!now) return;
  for (const layer of layers) {
    const shown = gd.calcdata.filter(([{ trace }]) => trace.visible === true && isIn(trace, layer));
    layer.module.plot(gd, layer.plot, shown, layer.group);
    if (layer.type !== "scatter") layer.module.style(gd);
  }
}

/** Whether a trace is of a kind whose drawing depends on nothing but itself and the other bars. */
function isSimple(trace, { xaxis, yaxis }) {
  const fixed = [xaxis, yaxis].every((axis) => axis && !axis.autorange && ["linear", "log"].includes(axis.type));
  const { plot, calc, crossTraceCalc, style } = trace._module ?? {};
  const complete = plot && calc && style && (trace.type !== "bar" || crossTraceCalc);
  return fixed && complete && trace.type in LAYERS && !trace.stackgroup && !trace.transforms && !isArray(trace.hoverinfo);
}

/** Whether a new value of a property can take the place of the old one: of the same kind. */
function fits(own, name, value) {
  if (!NAMES.has(name)) return false;
  if (name === "visible") return typeof value === "boolean";
  if (name === "marker") return fitsMarker(own.marker, value);
  const old = own[name];
  if (name === "hovertemplate") return typeof value === "string" && typeof old === "string";
  return (isArray(value) && isArray(old)) || (!isArray(value) && !isArray(old) && value != null && old != null);
}

function fitsMarker(old, value) {
  if (!old || !value || !alike(Object.keys(old).sort(), Object.keys(value).sort())) return false;
  return Object.keys(value).every((name) => (MARKER.has(name) ? isArray(old[name]) === isArray(value[name]) : alike(old[name], value[name])));
}

/** Whether a trace is drawn after a change: plotly hides one without points. */
function isShown(own, change) {
  const value = (name) => change[name] ?? own[name];
  return (change.visible ?? own.visible ?? true) === true && NUMBERS.every((name) => !isArray(value(name)) || value(name).length > 0);
}

function assign(own, trace, change) {
  trace.lpComplete ||= trace.visible === true;
  Object.assign(own, change);
  for (const [name, value] of Object.entries(change)) {
    if (name === "visible") continue;
    if (name === "marker" && trace.marker) Object.assign(trace.marker, value.line ? { ...value, line: trace.marker.line } : value);
    else trace[name] = value;
  }
  trace.visible = isShown(own, {});
  if (trace.type !== "heatmap") trace._length = Math.min(own.x?.length ?? Infinity, own.y?.length ?? Infinity);
}

function calculate(gd, trace, k) {
  const points = trace.visible === true ? trace._module.calc(gd, trace) : [];
  if (!points[0]) points[0] = { x: undefined, y: undefined };
  points[0].t ??= {};
  points[0].trace = trace;
  gd.calcdata[k] = points;
}

// ---- the figure's place on the page ---------------------------------------------------------------------------------

/** Knows whether `el` can be seen, and draws what waits when it comes into sight; returns the function that ends this. */
export function watchSight(el) {
  const watch = new IntersectionObserver(
    (entries) => {
      el.lpOutOfSight = !entries.at(-1).isIntersecting;
      if (!el.lpOutOfSight) el.lpShow?.();
    },
    { rootMargin: "120px" },
  );
  watch.observe(el);
  return () => watch.disconnect();
}

const ALLOWED = new Set(["B", "I", "EM", "STRONG", "SUB", "SUP", "BR", "SPAN"]);

/** The small HTML of plotly's texts as nodes of the page: its tags, of styles colour and size, and nothing else. */
function words(text) {
  const clean = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
    const made = ALLOWED.has(node.nodeName) ? document.createElement(node.nodeName) : document.createDocumentFragment();
    if (node.nodeName === "SPAN") for (const name of ["color", "fontSize"]) made.style[name] = node.style[name];
    made.append(...[...node.childNodes].map(clean));
    return made;
  };
  return [...new DOMParser().parseFromString(text, "text/html").body.childNodes].map(clean);
}

/** Keeps the heading of `el` equal to the figure's title and subtitle; it grows downwards and then moves the plot. */
export function headed(model, el) {
  const heading = document.createElement("div");
  heading.className = "lp-fig-heading";
  el.prepend(heading);
  const tell = () => {
    const { title, subtitle, left, room } = model.get("_heading");
    heading.hidden = !title;
    if (!title) return;
    const lines = [["title", title], ["subtitle", subtitle]].filter(([, text]) => text);
    heading.replaceChildren(
      ...lines.map(([name, text]) => {
        const line = document.createElement("div");
        line.className = `lp-fig-${name}`;
        line.append(...words(text));
        return line;
      }),
    );
    heading.style.setProperty("--lp-room", `${room}px`);
    heading.style.setProperty("--lp-left", `${left}px`);
  };
  tell();
  model.on("change:_heading", tell);
  return () => model.off("change:_heading", tell);
}
