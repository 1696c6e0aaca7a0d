// The browser's half of LiveFigure: plotly's own figure view, with three things added.
//
// 1. plotly's 5 MB module arrives once per page, gzipped, in a widget that all figures share (LiveFigure._bundle).
// 2. The figure takes the width of whatever holds it, and follows when that changes.
// 3. Its alt text becomes the label that a screen reader reads.

/** The shared plotly module; one promise per plotly version, kept on the page. */
function plotlyModule(model) {
  const shelf = (globalThis.__lplabPlotly ??= new Map());
  const version = model.get("_plotly_version");
  if (!shelf.has(version)) {
    const loading = importGzipped(model);
    loading.catch(() => shelf.delete(version)); // a later figure may try again
    shelf.set(version, loading);
  }
  return shelf.get(version);
}

async function importGzipped(model) {
  const id = model.get("_bundle").replace(/^IPY_MODEL_/, "");
  const bundle = await model.widget_manager.get_model(id);
  const unzipped = new Blob([bundle.get("data")]).stream().pipeThrough(new DecompressionStream("gzip"));
  const source = new Blob([await new Response(unzipped).arrayBuffer()], { type: "text/javascript" });
  const url = URL.createObjectURL(source);
  try {
    return (await import(url)).default;
  } finally {
    URL.revokeObjectURL(url);
  }
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

/** Calls plotly's own resize handler when the width of `el` has changed; returns the function that ends this. */
function followWidth(el, pause = 60) {
  let width = el.clientWidth;
  let timer;
  const resize = () => (el._responsiveChartHandler ? el._responsiveChartHandler() : window.dispatchEvent(new Event("resize")));
  const watch = new ResizeObserver(() => {
    if (!el.clientWidth || el.clientWidth === width) return;
    width = el.clientWidth;
    clearTimeout(timer);
    timer = setTimeout(resize, pause);
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

export default () => {
  let plotly; // one plotly figure model per LiveFigure
  return {
    async initialize(context) {
      plotly = (await plotlyModule(context.model))();
      return plotly.initialize(context);
    },
    async render(context) {
      const { model, el } = context;
      el.style.width = "100%";
      await whenWide(el);
      const unlabel = labelled(model, el);
      const erase = await plotly.render(context);
      const unfollow = followWidth(el);
      return () => {
        unfollow();
        unlabel();
        erase?.();
      };
    },
  };
};
