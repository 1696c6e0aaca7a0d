// What live_figure.js adds to plotly's view of a figure: its heading, and changes that are drawn with as little work as
// they need. It comes once per page, in the widget that all figures share.
//
// Plotly's update draws a whole figure. Here a change is taken apart first: numbers and words of traces are drawn by
// plotly's own functions for their layers; shapes are moved; of an axis that changes, plotly is told exactly what. Where a
// change is anything else, or this plotly keeps a figure in another way, plotly's update draws it, as it always did.

// ---- a view from its first drawing to its end -----------------------------------------------------------------------

/** Makes plotly's view known to its element once it is drawn, and close no earlier than that. */
export function drawBeforeClosing(prototype) {
  const { perform_render: render, remove } = prototype;
  prototype.perform_render = function () {
    this.lpDrawn = new Promise((done) => (this.lpIsDrawn = done));
    return render.call(this);
  };
  // plotly's first call when a view is drawn; it goes on in the same task. Reporting is what it is for, see live_figure.js
  prototype._sendTraceDeltas = function () {
    if (!this.lpIsDrawn) return;
    this.lpIsDrawn();
    this.lpIsDrawn = undefined;
    this.lpDrawn.then(() => this.el.lpHasDrawn?.(this));
  };
  prototype.remove = async function () {
    await this.lpDrawn;
    return remove.call(this);
  };
}

// ---- changes, drawn once a frame ------------------------------------------------------------------------------------

const AT_REST = 250; // milliseconds without a change, after which a figure is looked at again, and drawn if out of sight

/** Makes plotly's view collect changes, and draw them as little as it can. */
export function drawOnceAFrame(prototype) {
  const drawAll = prototype.do_update; // plotly's own: it reads the change from the model
  prototype.lpMove = function () {
    const moving = Object.entries(this.model.get("_widget_layout")).filter(([name]) => /^(height|yaxis\d*)$/.test(name));
    drawChanges(this, { traces: new Map(), layout: Object.fromEntries(moving) }, drawAll);
  };
  prototype.lpFit = function () {
    const width = this.el.clientWidth;
    const before = Boolean(this.el.lpPhone);
    const now = isPhone(this.el);
    if (!width || (width === this.el._fullLayout.width && before === now)) return;
    this.el.lpPhone = now;
    const whole = Object.entries(this.model.get("_widget_layout")).filter(([name]) => /^(height|margin|shapes|[xy]axis\d*)$/.test(name));
    const layout = before || now ? Object.fromEntries(whole) : {};
    drawChanges(this, { traces: now === before ? new Map() : ofForm(this.model.get("_widget_data"), now), layout: { ...layout, width } }, drawAll);
  };
  const report = prototype.handle_plotly_update;
  prototype.handle_plotly_update = function (event) {
    if (this.lpUnreported) this.lpUnreported--;
    else report.call(this, event);
  };
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

function drawChanges(view, changes, drawAll) {
  drawChanged(view, changes, drawAll);
  makeReadable(view.el);
  // plotly may turn or move ticks once more when it has drawn them
  clearTimeout(view.lpLook);
  if (view.el.clientWidth < NARROW) view.lpLook = setTimeout(() => view.el.lpView && makeReadable(view.el), AT_REST);
}

function drawChanged(view, { traces, layout: given }, drawAll) {
  let layout = fitted(view.el, given);
  // plotly takes the text out of an empty word, and finds none where the word comes back
  for (const word of view.el.querySelectorAll("g.textpoint")) if (!word.firstChild) word.remove();
  const changed = layoutChanges(view.el, layout);
  const axesMove = changed && Object.keys(changed.axes).some((name) => name.endsWith(".range"));
  const parts = changed && drawParts(view.el, traces, changed);
  if (parts) {
    if (!axesMove) writeTitles(view.el, changed.axes);
    if (!Object.keys(changed.axes).length) return;
    traces = new Map(); // they are drawn already
    layout = changed.axes;
  }
  const names = new Set([...traces.values()].flatMap(Object.keys));
  const style_data = {};
  for (const name of names) style_data[name] = [...traces.values()].map((change) => change[name]);
  if (parts) drawAxesAlone(view, style_data);
  const update = { style_data, layout_data: layout, style_traces: [...traces.keys()] };
  const once = Object.create(view);
  once.model = { get: () => update, _normalize_trace_indexes: (indexes) => indexes };
  const complete = completeTraces(view.el, traces, parts ? {} : layout);
  drawAll.call(once);
  complete();
}

/**
 * Lets plotly draw what changes of axes and nothing else. Plotly's view marks the traces' changes as Python's own, so
 * that they are not reported back; plotly takes the mark for a property of all traces that it does not know, and draws
 * the whole figure, if need be twice. So the mark gets lost here, and the view leaves out one report.
 */
function drawAxesAlone(view, style_data) {
  Object.defineProperty(style_data, "_doNotReportToPy", { set() {} });
  view.lpUnreported = (view.lpUnreported ?? 0) + 1;
}

/** Draws what of a change can be drawn by itself; false, with nothing changed, where plotly must draw the figure. */
function drawParts(gd, given, { axes, shapes }) {
  const moved = movedAxes(gd, axes);
  const all = shapes ?? (moved?.length ? gd.layout.shapes : null); // axes that move take theirs with them
  const moves = moved && (all ? movedShapes(gd, all, moved) : []);
  const traces = moved && withTracesOn(gd, given, moved);
  const plots = moves && layersOf(gd, traces);
  if (!plots) return false;
  moveAxes(gd, axes, moved);
  moves.forEach((each) => each());
  drawTraces(gd, traces, plots);
  return true;
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

/** The axes whose range changes; null where more depends on one of them than its ticks, and the traces and shapes on it. */
function movedAxes(gd, axes) {
  const full = gd._fullLayout;
  const moved = Object.keys(axes).filter((name) => name.endsWith(".range")).map((name) => full[name.replace(".range", "")]);
  const free = (axis) => {
    const range = axes[`${axis?._name}.range`];
    if (!range || range.length !== 2 || !range.every(Number.isFinite) || range[0] === range[1]) return false;
    if (!axis.setScale || !axis._rl || !["linear", "log"].includes(axis.type) || axis.autorange) return false;
    if (axis._matchGroup || axis._constraintGroup || axis.rangeslider?.visible || axis.rangeselector?.visible) return false;
    if (!gd.layout[axis._name].title?.text) return false; // for moveAxes
    const words = [...(full.annotations ?? []), ...(full.images ?? []), ...(full.selections ?? [])];
    return !words.some((word) => [word.xref, word.yref, word.axref, word.ayref].includes(axis._id));
  };
  return moved.every(free) ? moved : null;
}

/** Moves axes; plotly has to draw their ticks after that, for which it is told their titles once more. */
function moveAxes(gd, axes, moved) {
  for (const axis of moved) {
    const [name, own] = [axis._name, gd.layout[axis._name]];
    const range = axes[`${name}.range`];
    delete axes[`${name}.range`];
    own.range = [...range];
    axis.range = [...range];
    axis._r = [...range];
    axis._rl = range.map((end) => axis.r2l(end));
    axis._inputRange = null;
    axis.setScale();
    axes[`${name}.title.text`] ??= own.title.text;
  }
}

/** A change of traces, and no change of the other traces on axes that move: they are drawn, too. */
function withTracesOn(gd, traces, moved) {
  const ids = moved.map((axis) => axis._id);
  const others = gd._fullData.flatMap(({ xaxis, yaxis, visible }, k) =>
    visible === true && !traces.has(k) && (ids.includes(xaxis) || ids.includes(yaxis)) ? [[k, {}]] : [],
  );
  return new Map([...traces, ...others]);
}

/** Writes what the titles of axes say, where nothing else of the axes changes; such titles are no longer among `axes`. */
function writeTitles(gd, axes) {
  const plainWords = (text) => typeof text === "string" && text && !/[<$&\n]/.test(text);
  const titles = Object.entries(axes).map(([name, text]) => {
    const [axis, end] = [name.slice(0, name.indexOf(".")), name.slice(name.indexOf("."))];
    const word = gd.querySelector(`.infolayer text.${axis.replace("axis", "")}title`);
    const own = gd._fullLayout[axis];
    return end === ".title.text" && word && !word.children.length && plainWords(text) && { name, text, axis, own, word };
  });
  if (!titles.every(Boolean)) return;
  for (const { name, text, axis, own, word } of titles) {
    gd.layout[axis].title.text = own.title.text = text;
    word.textContent = text;
    word.setAttribute("data-unformatted", text); // plotly reads it there
    delete axes[name];
  }
}

// ---- shapes that move -----------------------------------------------------------------------------------------------

const ENDS = ["x0", "x1", "y0", "y1"];

/**
 * Functions that move each shape to its new place, also those that only their axes move; null where that is not all, or
 * plotly draws them in another way.
 */
function movedShapes(gd, shapes, axes) {
  const full = gd._fullLayout?.shapes ?? [];
  if (!isArray(shapes) || full.length !== shapes.length || (gd.layout.shapes ?? []).length !== shapes.length) return null;
  const moves = [];
  for (const [k, shape] of shapes.entries()) {
    const old = gd.layout.shapes[k];
    const isOn = (axis) => axis._id === full[k].xref || axis._id === full[k].yref;
    if (alike(old, shape) && !axes.some(isOn)) continue;
    const still = ({ x0, x1, y0, y1, visible, ...rest }) => rest;
    const find = () => gd.querySelector(`.shapelayer path[data-index="${k}"]`);
    const then = find() && outline(gd, full[k]);
    if (!then || !alike(still(old), still(shape)) || !sameOutline(find().getAttribute("d"), then)) return null;
    moves.push(() => {
      const [now, path] = [gd._fullLayout.shapes[k], find()]; // plotly may have made them anew
      gd.layout.shapes[k] = shape;
      for (const end of ENDS) if (end in shape) now[end] = shape[end];
      if (!path) return; // plotly is drawing them: it reads the new place
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
const NAMES = new Set([...NUMBERS, "text", "hovertext", "customdata", "hovertemplate", "textposition", "visible", "marker", "fill"]);
const FILLS = new Set(["none", "tozeroy"]); // those that depend on no other trace
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
function drawTraces(gd, changes, layers) {
  const layout = gd._fullLayout;
  const isIn = (trace, { type, plot }) => trace.type === type && layout._plots[trace.xaxis + trace.yaxis] === plot;
  const appears = new Set(); // traces that come or go
  for (const [k, change] of changes) {
    const before = gd._fullData[k].visible;
    assign(gd.data[k], gd._fullData[k], change);
    if (gd._fullData[k].visible !== before) appears.add(k);
  }
  for (const layer of layers) {
    const together = layer.type === "bar"; // bars of a subplot are placed together
    gd._fullData.forEach((trace, k) => {
      if (isIn(trace, layer) && (together || changes.has(k))) calculate(gd, trace, k);
    });
    if (together) layer.module.crossTraceCalc(gd, layer.plot);
  }
  for (const layer of layers) {
    const places = [...gd.calcdata.keys()].filter((k) => isIn(gd._fullData[k], layer));
    const shown = places.filter((k) => gd._fullData[k].visible === true);
    const points = (indexes) => indexes.map((k) => gd.calcdata[k]);
    const alone = layer.type === "scatter" && !places.some((k) => appears.has(k) || `${gd._fullData[k].fill}`.startsWith("tonext"));
    if (alone) {
      const others = shown.filter((k) => changes.has(k) && !drawLine(gd, layer, k));
      // a duration keeps the rest
      for (const run of runs(shown, others)) layer.module.plot(gd, layer.plot, points(run), layer.group, { duration: 0 });
    } else {
      layer.module.plot(gd, layer.plot, points(shown), layer.group);
    }
    if (layer.type === "scatter") joinLines(layer.group.node());
    else layer.module.style(gd);
  }
}

/** The wanted traces, those that follow one another together: of others plotly would lay what is between below them. */
function runs(shown, wanted) {
  const result = [];
  shown.forEach((k, place) => {
    if (!wanted.includes(k)) return;
    if (wanted.includes(shown[place - 1])) result.at(-1).push(k);
    else result.push([k]);
  });
  return result;
}

/** Draws a line of straight pieces with gaps as one path; false, with nothing drawn, where it is something else. */
function drawLine(gd, { plot, group }, k) {
  const { [k]: points } = gd.calcdata;
  const { uid, mode, line, marker, fill, connectgaps, error_x, error_y } = gd._fullData[k];
  const { xaxis, yaxis } = plot;
  const straight = mode === "lines" && line.simplify === false && line.shape === "linear" && !marker; // lines stop before markers
  if (!straight || fill !== "none" || connectgaps || error_x?.visible || error_y?.visible) return false;
  const own = group.node().querySelector(`g.trace${uid} > g.lines`);
  const path = own?.querySelector("path.js-line");
  if (!path || path.style.strokeOpacity !== "1") return false;
  let [outline, pieces] = ["", 0];
  let before = false; // whether the point before is drawn
  for (const { x, y } of points) {
    const there = Number.isFinite(x) && Number.isFinite(y);
    if (there) {
      const [left, top] = [xaxis.c2p(x), yaxis.c2p(y)];
      if (isFar(left, xaxis) || isFar(top, yaxis)) return false; // so is zero on an axis of logarithms
      outline += `${before ? "L" : "M"}${left},${top}`;
      pieces += !before;
    }
    before = there;
  }
  if (!pieces) return false;
  for (const other of own.querySelectorAll("path.js-line")) if (other !== path) other.remove();
  path.__data__ = points; // plotly reads it there
  path.setAttribute("d", outline);
  return true;
}

/** Whether a place in pixels is so far outside a plot that plotly cuts the line. */
const isFar = (place, { _length }) => !(place >= -5 * _length && place <= 6 * _length);

/**
 * Joins the pieces of each line below an element of the page. Plotly makes a path for every piece between two gaps,
 * hundreds for a line of ticks, and the browser spends more time on them than on anything else.
 */
function joinLines(el) {
  for (const first of el.querySelectorAll(".lines > path.js-line:first-child")) {
    const paths = first.nextElementSibling ? [...first.parentNode.querySelectorAll("path.js-line")] : [];
    if (paths.length < 2 || first.style.strokeOpacity !== "1") continue; // pieces that overlap would look darker
    first.setAttribute("d", paths.map((path) => path.getAttribute("d")).join(""));
    for (const path of paths.slice(1)) path.remove();
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
  if (name === "fill") return FILLS.has(value) && FILLS.has(own.fill) && typeof own.fillcolor === "string";
  const old = own[name];
  if (name === "hovertemplate") return typeof value === "string" && typeof old === "string";
  return (isArray(value) && isArray(old)) || (!isArray(value) && !isArray(old) && value != null && old != null);
}

function fitsMarker(old, value) {
  if (!old || !value || !alike(Object.keys(old).sort(), Object.keys(value).sort())) return false;
  if (value.pattern && !alike(old.color, value.color)) return false; // plotly makes the colour of a hatch of it
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
    if (name === "marker" && trace.marker) {
      const { line, pattern } = trace.marker; // with what plotly fills in: the width of an edge, the colour of a hatch
      Object.assign(trace.marker, value, value.line && { line }, value.pattern && { pattern });
    } else trace[name] = value;
  }
  if ("fill" in change) trace.fillcolor ??= own.fillcolor; // plotly fills it in where there is a fill
  trace.visible = isShown(own, {});
  if (trace.type !== "heatmap") trace._length = Math.min(own.x?.length ?? Infinity, own.y?.length ?? Infinity);
}

/**
 * Plotly, when it has drawn a figure, knows nothing of traces that it did not draw. What it knew of them before is still
 * right where nothing but numbers and words has changed since: with it they can be shown again without a new drawing.
 * To be called before plotly draws; the result, after that.
 */
function completeTraces(gd, changes, layout) {
  const known = (gd.lpKnown ??= new Map());
  gd._fullData.forEach((trace, k) => (trace.visible === true || trace.lpComplete) && known.set(k, trace));
  if (Object.keys(layout).some((name) => !/^([xy]axis\d*|shapes|height|width)$/.test(name))) known.clear();
  for (const [k, change] of changes) {
    const { marker } = gd.data[k];
    const more = "marker" in change && !alike(marker, change.marker) && !fitsMarker(marker, change.marker);
    if (more || Object.keys(change).some((name) => !NAMES.has(name))) known.delete(k);
  }
  return () =>
    gd._fullData.forEach((trace, k) => {
      if (trace.visible === true || !known.has(k)) return;
      const { _arrayAttrs, ...before } = known.get(k);
      Object.assign(trace, { ...before, ...trace, _arrayAttrs, lpComplete: true });
      const now = Object.entries(gd.data[k]).filter(([name]) => NAMES.has(name)); // also what has changed since
      assign(gd.data[k], trace, Object.fromEntries(now));
    });
}

/** Ends of error bars are calculated with the whole figure only; where they change, plotly draws it. */
function keepErrorBars(point, before) {
  for (const axis of ["x", "y"]) {
    for (const end of [`${axis}s`, `${axis}h`]) {
      if (Number.isFinite(before?.[end])) point[end] = point[axis] + before[end] - before[axis];
    }
  }
}

function calculate(gd, trace, k) {
  const points = trace.visible === true ? trace._module.calc(gd, trace) : [];
  points.forEach((point, i) => keepErrorBars(point, gd.calcdata[k]?.[i]));
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

const NARROW = 600; // pixels; figures are made for more
const BETWEEN = 5; // pixels between the words of two ticks
const SMALL = 9; // pixels of a bar's text that plotly has made smaller, and of an axis title

/**
 * Of a narrow figure: hides words that lie over others, or leave the figure, and puts axis titles into it.
 *
 * What is kept are, in this order: titles, totals behind bars and other words in the common ink, words in colours. The
 * same numbers are in the box under the pointer and in the alt text.
 */
function makeReadable(el) {
  for (const text of el.lpHidden ?? []) text.style.visibility = "";
  el.lpHidden = [];
  for (const text of el.lpMoved ?? []) text.style.fontSize = text.style.translate = "";
  el.lpMoved = [];
  if (!el.clientWidth || el.clientWidth >= NARROW) return;
  // plotly hides the ticks below names that stand in the plot, as if the names stood on the axis
  if (isPhone(el)) for (const tick of el.querySelectorAll("[class^=xaxislayer] [class$=tick], [class^=xaxislayer] [class$=tick] > text")) tick.style.display = "";
  const whole = el.getBoundingClientRect();
  for (const text of el.querySelectorAll(PUT_IN)) {
    if (intoFigure(text, whole)) el.lpMoved.push(text);
  }
  const kept = [...el.querySelectorAll(".lp-fig-heading:not([hidden]) > div")].map((line) => line.getBoundingClientRect());
  const ticks = [...el.querySelectorAll(".cartesianlayer [class$=tick] > text")];
  const words = [...el.querySelectorAll(".cartesianlayer .textpoint text, .cartesianlayer .bartext")];
  const areas = new Map();
  const ofTheme = (text) => INKS.has(text.style.fill);
  const inOrder = [...ticks, ...words.filter(ofTheme), ...words.filter((text) => !ofTheme(text))];
  const hidden = inOrder.filter((text) => {
    const place = text.getBoundingClientRect();
    const cut = place.left < whole.left - 1 || place.right > whole.right + 1 || isClipped(text, place, areas);
    const illegible = text.classList.contains("bartext") && place.height < SMALL;
    const room = ticks.includes(text) ? BETWEEN : 0;
    const wide = { left: place.left - room, right: place.right + room, top: place.top, bottom: place.bottom };
    if (cut || illegible || kept.some((other) => overlap(wide, other) > 2)) return place.width > 0;
    kept.push(place);
    return false;
  });
  for (const text of hidden) text.style.visibility = "hidden";
  el.lpHidden = hidden;
}

const PUT_IN = ".infolayer [class$=title] > text[class^=x], .infolayer .annotation-text, .xaxislayer-above [class$=tick] > text";
const INKS = new Set(["rgb(117, 117, 117)", "rgb(42, 63, 95)", "rgb(68, 68, 68)"]); // as in live_figure.css

function overlap(a, b) {
  return Math.min(Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
}

/** Whether the edge of the plot cuts a word at its side; the places of plots that were looked for are in `areas`. */
function isClipped(text, place, areas) {
  const plot = text.closest("[clip-path]") && text.closest(".subplot");
  if (!plot) return false;
  if (!areas.has(plot)) {
    const area = plot.querySelector("[clip-path]") && text.closest(".js-plotly-plot").querySelector(`.nsewdrag[data-subplot="${plot.classList[1]}"]`);
    areas.set(plot, area?.getBoundingClientRect());
  }
  const area = areas.get(plot);
  return area && (place.left < area.left - 2 || place.right > area.right + 2);
}

/** Moves a text into the figure, and makes it smaller where it is too long for that; returns whether it did. */
function intoFigure(text, { left, right }) {
  const room = right - left - 8;
  const before = text.getBoundingClientRect();
  if (!before.width) return false; // plotly does not show it
  if (before.left >= left && before.right <= right) return false;
  const size = parseFloat(getComputedStyle(text).fontSize);
  if (before.width > room) text.style.fontSize = `${Math.max(SMALL, Math.floor((10 * size * room) / before.width) / 10)}px`;
  const place = text.getBoundingClientRect();
  text.style.translate = `${Math.max(left + 4 - place.left, 0) - Math.max(place.right - right + 4, 0)}px 0`;
  return true;
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

/** Keeps the headings of `el` equal to the figure's titles and subtitles; they grow downwards and then move the plots. */
export function headed(model, el) {
  const headings = [];
  const height = (heading) => heading.offsetHeight - parseFloat(heading.style.getPropertyValue("--lp-room"));
  const move = () => {
    const more = headings.map((heading) => Math.max(0, Math.ceil(height(heading))));
    const wide = el.clientWidth;
    // a title that gets shorter does not move the plot back: it would jump while a slider moves
    const room = el.lpLower?.wide === wide ? more.map((each, k) => Math.max(each, el.lpLower.room[k] ?? 0)) : more;
    const moved = !alike(room, el.lpLower?.room ?? more.map(() => 0));
    el.lpLower = { wide, room, panels: model.get("_heading").panels };
    place();
    if (moved) el.lpView?.lpMove();
  };
  const watch = new ResizeObserver(move);
  const place = () => {
    let lower = 0;
    model.get("_heading").panels.forEach(({ top }, k) => {
      headings[k].style.top = `${top + lower}px`;
      lower += el.lpLower?.room[k] ?? 0;
    });
  };
  const tell = () => {
    const { panels, left, ...whole } = model.get("_heading");
    const parts = panels ?? [whole];
    while (headings.length < parts.length) {
      const after = el.children[headings.length] ?? null;
      headings.push(document.createElement("div"));
      el.insertBefore(headings.at(-1), after);
      if (panels) watch.observe(headings.at(-1));
    }
    parts.forEach(({ title, subtitle, room }, k) => {
      const heading = headings[k];
      heading.className = panels ? "lp-fig-heading lp-fig-panel" : "lp-fig-heading";
      heading.hidden = !title;
      if (!title) return;
      const lines = [["title", title], ["subtitle", subtitle]].filter(([, text]) => text);
      if (!alike(heading.lpLines, lines)) heading.replaceChildren(...lines.map(line));
      heading.lpLines = lines;
      heading.style.setProperty("--lp-room", `${room}px`);
      heading.style.setProperty("--lp-left", `${left}px`);
    });
    if (panels) place();
  };
  tell();
  model.on("change:_heading", tell);
  el.lpPanels = () => model.get("_heading").panels?.length ?? 1;
  el.lpHasDrawn = (view) => {
    el.lpView = view;
    el.on("plotly_afterplot", () => {
      joinLines(el);
      makeReadable(el);
    });
    joinLines(el);
    makeReadable(el);
    view.lpFit();
    if (el.lpLower?.room.some(Boolean)) view.lpMove();
  };
  return () => {
    watch.disconnect();
    el.lpHasDrawn = el.lpView = undefined;
    model.off("change:_heading", tell);
  };
}

function line([name, text]) {
  const made = document.createElement("div");
  made.className = `lp-fig-${name}`;
  made.append(...words(text));
  for (const { nextSibling: word } of made.querySelectorAll("span")) { // a line never ends between a sign and its word
    if (word?.nodeType === Node.TEXT_NODE) word.data = word.data.replace(/^ \b/, "\u00a0");
  }
  return made;
}

/** A layout, or a change of one, as it is drawn: below the figure's titles, and on a phone in the form for a phone. */
export function fitted(el, layout) {
  const lower = lowered(el, layout);
  if (!isPhone(el)) return lower;
  const whole = { ...el.lpView?.model.get("_widget_layout"), ...layout };
  const form = phoneForm(whole, widthOf(el));
  const changed = Object.entries(lower).map(([name, value]) => {
    if (name === "height") return [name, value + form.height - whole.height];
    if (name === "shapes") return [name, form.shapes];
    return [name, form[name] ? { ...value, ...form[name] } : value];
  });
  return Object.fromEntries(changed);
}

// ---- a figure on a phone ----------------------------------------------------------------------------------------------

const PHONE = 420; // pixels; names beside their rows would leave less room than the rows need
const [FEW, TALL, LOW] = [8, 42, 26]; // up to so many rows are so high, with the name above each; more rows are lower
const [NAMED, NUMBERED] = [22, 56]; // left margins, beside rows (half of the first tick of the other axis) and beside a scale
const SHORT = 90; // a left margin that leaves enough beside it
const [PLOT, GAP, COLUMN] = [165, 4, 90]; // what a plot needs at least, and what a column of words beside it can use
const [ROOM, END] = [100, 20]; // a right margin that holds a word for each row, which stands above the row then, and what is left

/** Whether a figure has the form for a phone. Panels above one another keep theirs: their titles have their places. */
export const isPhone = (el) => widthOf(el) > 0 && widthOf(el) < PHONE && (el.lpPanels?.() ?? 1) === 1;
const widthOf = (el) => el.clientWidth || el._fullLayout?.width || 0; // while it is hidden, that of its last drawing

/** What the form for a phone changes in a layout: names stand above their rows, and the plot takes the room beside them. */
function phoneForm(whole, width) {
  const { l, r, t, b } = { l: 80, r: 80, t: 100, b: 80, ...whole.margin };
  const axesOf = (letter) => Object.entries(whole).filter(([name]) => new RegExp(`^${letter}axis\\d*$`).test(name));
  const scales = axesOf("y").filter(([, { visible }]) => visible !== false);
  const named = scales.filter(([, { ticktext, title }]) => ticktext?.length && !title?.text);
  const rows = l > SHORT ? named.filter(([, { range }]) => range && whole.height) : []; // short names stay where they are
  const isFree = scales.length && named.length === rows.length;
  const margin = { ...whole.margin, l: isFree ? Math.min(l, rows.length === scales.length ? NAMED : NUMBERED) : l };
  if (rows.length) margin.r = r > ROOM ? END : Math.max(r, END);
  const form = { margin, height: whole.height };
  const plot = (height) => height - t - b;
  const share = ({ domain }) => (domain ? domain[1] - domain[0] : 1);
  const span = ({ range }) => Math.abs(range[1] - range[0]);
  for (const [, axis] of rows) {
    const least = (axis.ticktext.length > FEW ? LOW : TALL) * span(axis);
    form.height = Math.max(form.height, Math.ceil(least / share(axis)) + t + b);
  }
  for (const [name, axis] of rows) {
    const high = (plot(form.height) * share(axis)) / span(axis);
    const up = Math.round((axis.ticktext.length > FEW ? 0.25 : 0.35) * high);
    // plotly shifts along the axis, whose numbers may grow downwards
    form[name] = { ticklabelposition: "inside top", ticklabeloverflow: "allow", ticklabelshift: axis.range[1] < axis.range[0] ? up : -up };
  }
  const isFrame = ({ type, y0, y1, yref }) => type === "rect" && y1 - y0 === 1 && rows.some(([name]) => name.replace("axis", "") === (yref ?? "y"));
  form.shapes = whole.shapes?.map((shape) => (isFrame(shape) ? { ...shape, y0: shape.y0 - 0.35, y1: shape.y1 - 0.2 } : shape)); // name and row
  return { ...form, ...widened(axesOf("x"), width - margin.l - margin.r) };
}

/** Whether an axis is that of a column of words beside the plot. */
const isColumn = ({ visible, domain }) => visible === false && domain?.[0] > 0.5;

/** The x axes over all the room there is; a column of words beside them gets what the plot does not need, other panels stay. */
function widened(axes, room) {
  if (axes.some(([, axis]) => axis.visible !== false && axis.domain?.[0] > 0)) return {};
  const column = axes.find(([, axis]) => isColumn(axis));
  const end = column ? 1 - clamped(room - PLOT - GAP, 0, COLUMN) / room : 1;
  const plots = axes.filter(([, axis]) => axis.domain?.[0] === 0 && axis.domain[1] < 1);
  const changed = plots.map(([name]) => [name, { domain: [0, column ? end - GAP / room : 1] }]);
  if (column) changed.push([column[0], { domain: [end, 1] }]);
  return Object.fromEntries(changed);
}

const clamped = (value, low, high) => Math.min(high, Math.max(low, value));

/**
 * What traces have in the form for a phone, or in the other: they say it themselves, in `meta.phone`. Null is plotly's own
 * value; what is undefined it would leave as it was.
 */
function ofForm(data, phone) {
  const marked = data.map((trace, k) => [k, trace]).filter(([, { meta }]) => meta?.phone);
  const chosen = ({ meta, ...trace }) => Object.keys(meta.phone).map((name) => [name, (phone ? meta.phone : trace)[name] ?? null]);
  return new Map(marked.map(([k, trace]) => [k, Object.fromEntries(chosen(trace))]));
}

/** Traces as they are drawn in a figure of this width. */
export const fittedTraces = (el, data) => (isPhone(el) ? data.map((trace) => ({ ...trace, ...trace.meta?.phone })) : data);

/** The height of stacked figures, and the places of their y axes, below titles that need more room than they had. */
function lowered(el, layout) {
  const { panels, room } = el.lpLower ?? {};
  if (!panels || !el.lpView) return layout;
  const whole = el.lpView.model.get("_widget_layout");
  const before = whole.height - whole.margin.b;
  const after = before + room.reduce((sum, each) => sum + each, 0);
  const moved = {};
  for (const [name, value] of Object.entries(layout)) {
    const k = panels.findIndex(({ axes }) => axes.includes(name));
    const below = room.slice(k + 1).reduce((sum, each) => sum + each, 0);
    if (name === "height") moved[name] = value + after - before;
    else if (k < 0 || !value?.domain) moved[name] = value;
    else moved[name] = { ...value, domain: value.domain.map((end) => (end * before + below) / after) };
  }
  return moved;
}
