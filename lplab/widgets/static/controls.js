// Four small things that every group of controls needs. An invisible view of this widget lies inside the group.
//
// 1. Keys: those for a control of this group stay in the group, Jupyter's shortcuts work (keep_keys.js).
// 2. Copying text: Python sets `clipboard`, the browser copies it and says so in `copied`.
// 3. Sliders say their values. A slider over a list says the number of the entry, "6" for 64 learners.
// 4. Home and End go to the ends that a slider has now; noUiSlider goes to those that it began with.

/** Lets Home and End go to the ends that the sliders of a group have now. */
function keepEnds(group) {
  const toEnd = (event) => {
    const { noUiSlider } = event.target.closest?.(".noUi-target") ?? {};
    const end = { Home: "aria-valuemin", End: "aria-valuemax" }[event.key];
    if (!noUiSlider || !end || !isOwn(event) || event.target.closest("[disabled]")) return;
    noUiSlider.set(event.target.getAttribute(end));
    event.preventDefault();
    event.stopPropagation();
  };
  group.addEventListener("keydown", toEnd, { capture: true });
}

/**
 * Lets what is sticky in a group stick to the top of the notebook, not to that of an output that never scrolls.
 * Only elements of the cell are changed: what scrolls around it is the notebook, or the page itself, as Voila's.
 */
function freeSticky(group) {
  const cell = group.closest(".jp-Cell");
  for (let el = group.parentElement; cell && el !== cell.parentElement; el = el.parentElement)
    if (getComputedStyle(el).overflowY !== "visible") el.classList.add("lp-no-scroll");
}

let radioGroups = 0;

/** Names for screen readers that ipywidgets leaves out, and lines that are read when they change. */
export function nameControls(group) {
  for (const row of group.querySelectorAll(".widget-inline-hbox")) {
    const label = row.querySelector(".widget-label");
    for (const control of row.querySelectorAll("[role=slider]")) control.setAttribute("aria-label", label?.textContent ?? "");
  }
  for (const box of group.querySelectorAll(".widget-radio-box")) {
    const name = (box.dataset.lpName ??= `lp-radio-${++radioGroups}`); // one name makes them one tab stop
    for (const radio of box.querySelectorAll("input")) radio.name = name;
  }
  for (const button of group.querySelectorAll(".lp-disclosure")) {
    const tell = () => button.setAttribute("aria-expanded", button.classList.contains("lp-open"));
    tell();
    if (!button.lpWatch) (button.lpWatch = new MutationObserver(tell)).observe(button, { attributeFilter: ["class"] });
  }
  for (const line of group.querySelectorAll(".lp-live")) line.setAttribute("aria-live", "polite");
}

/** Lets each slider of a group say the value beside it and its unit, or what its label says where there is none. */
export function sayValues(group, units) {
  for (const row of group.querySelectorAll(".widget-inline-hbox")) {
    const [slider, label] = [row.querySelector("[role=slider]"), row.querySelector(".widget-label")];
    const readout = row.querySelector(".widget-readout");
    if (!slider || row.dataset.lpSays) continue;
    row.dataset.lpSays = "values";
    const say = () => {
      const shown = readout && readout.style.display !== "none" ? readout.textContent : "";
      const name = label?.textContent ?? "";
      const text = shown ? `${shown} ${units[name] ?? ""}`.trim() : name;
      if (slider.getAttribute("aria-valuetext") !== text) slider.setAttribute("aria-valuetext", text);
    };
    say();
    const watch = new MutationObserver(say);
    watch.observe(slider, { attributeFilter: ["aria-valuetext"] });
    for (const words of [readout, label]) if (words) watch.observe(words, { childList: true, characterData: true, subtree: true });
  }
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no permission, or no secure context: the text is there to be selected
  }
}

export default {
  render({ model, el }) {
    el.style.display = "none";
    keepHearing(model);
    let patience = 100;
    const enter = () => {
      const group = el.closest(".lp-controls");
      if (group) {
        keepKeys(group);
        keepEnds(group);
        const tell = () => {
          nameControls(group);
          sayValues(group, model.get("units") ?? {});
          for (const box of group.querySelectorAll(".lp-guided-controls")) {
            if (!box.lpWatch) (box.lpWatch = new MutationObserver(tell)).observe(box, { childList: true }); // another question
          }
        };
        for (const pause of [500, 2000, 8000]) setTimeout(tell, pause); // its members come one by one
        group.addEventListener("focusin", tell);
        freeSticky(group);
      } else if (patience--) setTimeout(enter, 50); // not yet in the page
    };
    enter();
    const onCopy = async () => {
      const { text, count } = model.get("clipboard");
      if (!text) return;
      model.set("copied", { count, done: await copy(text) });
      model.save_changes();
    };
    model.on("change:clipboard", onCopy);
    return () => model.off("change:clipboard", onCopy);
  },
};
