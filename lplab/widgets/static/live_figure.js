// The browser's half of LiveFigure: plotly's own figure view, with ten things changed.
//
// 1. plotly's 5 MB module arrives once per page, gzipped, in a widget that all figures share (LiveFigure._bundle).
// 2. The figure takes the width of whatever holds it, and follows when that changes. Its height stays as it is: plotly's
//    own way takes the height of the page's element, which grows with the title, and does nothing once a height was set.
// 3. Its alt text becomes the label that a screen reader reads.
// 4. It does not tell Python, after every change, all the defaults that plotly filled in: nobody asks for them, they cost
//    as much as the change itself, and plotly's Python half stumbles over arrays in them.
// 5. Its model does not write "_undefined_" into the figure's data. Python sends this sign for a trace that keeps what
//    it has; the view understands it, the model took it for a value. A figure that was drawn once more, in a second
//    output or after the page was loaded anew, then lacked a colour, a name, or all numbers of a trace.
// 6. A view that is closed no longer listens to changes: it has no figure left, the change fails in it, and a view that
//    was opened after it, as by running the cell again, does not hear of it.
// 7. Titles and subtitles are text of the page above the plots (LiveFigure._heading): they wrap where there is no room,
//    and a new title costs nothing, where plotly would lay out the whole figure again.
// 8. Where only numbers and words of traces change, only these traces' layers are drawn. Plotly's own update draws axes,
//    margins, titles and every other trace, too, which takes three times as long.
// 9. A figure is drawn at most once a frame, with all changes until then; one that is out of sight waits until nothing
//    has changed for a moment, or until it is seen.
// 10. A view that is closed before it is drawn is drawn first: plotly clears it at once, and then looks for what it cleared.
//
// 7 to 10 are in figure_parts.js, which comes once per page, too.

const page = (globalThis.__lplab ??= { plotly: new Map(), bundles: new WeakSet(), figures: new Map() });

/** The model that all figures of a kernel share; the first figure that asks makes it draw frames. */
async function sharedModel(model) {
  const bundle = await model.widget_manager.get_model(model.get("_bundle").replace(/^IPY_MODEL_/, ""));
  if (!page.bundles.has(bundle)) {
    page.bundles.add(bundle);
    bundle.on("msg:custom", ({ frame, places }, buffers) => drawFrame(withBuffers(frame, places, buffers)));
  }
  return bundle;
}

/** A message with its buffers at their places, as the state of a model has them. */
function withBuffers(frame, places, buffers) {
  places.forEach((place, k) => {
    const holder = place.slice(0, -1).reduce((part, name) => part[name], frame);
    const buffer = buffers[k];
    holder[place.at(-1)] = ArrayBuffer.isView(buffer) ? new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength) : new DataView(buffer);
  });
  return frame;
}

/** Hands several figures their updates at once, so that the browser paints them in one frame. */
function drawFrame(updates) {
  for (const [key, { alt, heading, ...update }] of Object.entries(updates)) {
    const model = page.figures.get(key);
    model?.set("alt", alt);
    model?.set("_heading", heading);
    model?.set("_py2js_update", update); // as if it had come from Python by itself: plotly decodes it when it reads it
    model?.set("_py2js_update", null);
  }
}

const KEEPS = "_undefined_"; // what Python's plotly.serializers.Undefined becomes in a message

/** Makes the sign in messages of Python what it stands for; to be called before plotly's model listens to them. */
function readSigns(model) {
  for (const [message, part] of [["_py2js_update", "style_data"], ["_py2js_restyle", "restyle_data"]]) {
    model.on(`change:${message}`, () => {
      for (const values of Object.values(model.get(message)?.[part] ?? {})) {
        if (Array.isArray(values)) values.forEach((value, k) => value === KEEPS && (values[k] = undefined));
      }
    });
  }
}

/** The model for plotly, and what plotly has begun to listen to since `heard` was last emptied, as [event, callback]. */
function withListeners(model) {
  const heard = [];
  const on = (event, callback) => {
    heard.push([event, callback]);
    model.on(event, callback);
  };
  return { model: { ...model, on }, heard };
}

/** Plotly's module and our parts of a figure; one promise per plotly version, kept on the page. */
function plotlyModule(bundle, version) {
  if (!page.plotly.has(version)) {
    const loading = importBoth(bundle);
    loading.catch(() => page.plotly.delete(version)); // a later figure may try again
    page.plotly.set(version, loading);
  }
  return page.plotly.get(version);
}

async function importSource(source) {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return await import(url);
  } finally {
    URL.revokeObjectURL(url);
  }
}

async function importBoth(bundle) {
  const unzipped = new Blob([bundle.get("data")]).stream().pipeThrough(new DecompressionStream("gzip"));
  const [{ default: figure, FigureView }, parts] = [
    await importSource(await new Response(unzipped).arrayBuffer()),
    await importSource(bundle.get("parts")),
  ];
  for (const report of ["_sendTraceDeltas", "_sendLayoutDelta"]) {
    FigureView.prototype[report] = () => {};
  }
  parts.drawBeforeClosing(FigureView.prototype);
  parts.drawOnceAFrame(FigureView.prototype);
  return { figure, parts };
}

/** Resolves once `el` has a width: a plot drawn into a hidden box would stay 700 px wide. */
function whenWide(el, patience = 1500) {
  if (el.clientWidth) return Promise.resolve();
  return new Promise((done) => {
    const watch = new ResizeObserver(() => el.clientWidth && finish());
    const timer = setTimeout(finish, patience);
    function finish() {
      watch.disconnect();
      clearTimeout(timer);
      done();
    }
    watch.observe(el);
  });
}

/** Draws the figure anew when the width of `el` has changed; returns the function that ends this. */
function followWidth(el, pause = 60) {
  let timer;
  const watch = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => el.lpView?.lpFit(), pause); // a figure that is being drawn for the first time fits after that
  });
  watch.observe(el);
  return () => {
    watch.disconnect();
    clearTimeout(timer);
  };
}

/** Keeps role and label of `el` equal to the figure's alt text. */
function labelled(model, el) {
  const tell = () => {
    el.setAttribute("role", "img");
    el.setAttribute("aria-label", model.get("alt") || "figure");
  };
  tell();
  model.on("change:alt", tell);
  return () => model.off("change:alt", tell);
}

async function begin(context) {
  const { model } = context;
  const { figure, parts } = await plotlyModule(await sharedModel(model), model.get("_plotly_version"));
  const plotly = figure();
  readSigns(model);
  const { model: own, heard } = withListeners(model);
  const close = await plotly.initialize({ ...context, model: own });
  heard.length = 0; // the model's listeners stay
  page.figures.set(model.get("_key"), model);
  model.send({ begun: true }); // frames that came before found nobody: Python tells again
  return {
    /** Draws a view; returns the function that closes it. */
    draw(view) {
      const ends = [parts.headed(model, view.el), parts.watchSight(view.el)];
      const erase = plotly.render(view);
      const listeners = heard.splice(0);
      return async () => {
        for (const end of ends) end();
        for (const [event, callback] of listeners) model.off(event, callback);
        await (await erase)?.();
      };
    },
    end() {
      page.figures.delete(model.get("_key"));
      close?.();
    },
  };
}

export default () => {
  let ready; // one plotly figure model per LiveFigure, and what plotly wants called at the end
  return {
    // anywidget gives up on a model that takes two seconds to initialize; a slow machine needs longer to load plotly.
    // So initialize only begins, and render waits.
    initialize(context) {
      ready = begin(context);
      return () => ready.then(({ end }) => end?.());
    },
    async render(context) {
      const { model, el } = context;
      const loading = setTimeout(() => (el.textContent = "The figure is loading\u2026"), 2000);
      try {
        await ready.catch(() => (ready = begin(context))); // once more: the page may have been too busy
      } catch (error) {
        el.textContent = "The figure did not load. Run its cell again: click it, then press Shift and Enter.";
        throw error;
      } finally {
        clearTimeout(loading);
      }
      const { draw } = await ready;
      el.textContent = "";
      el.style.width = "100%";
      await whenWide(el);
      const ends = [labelled(model, el), draw(context), followWidth(el)];
      return () => ends.forEach((end) => end());
    },
  };
};
