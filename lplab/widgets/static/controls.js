// Two small things that every group of controls needs. An invisible view of this widget lies inside the group.
//
// 1. Keys. JupyterLab takes keys from whatever has the focus in command mode: an arrow on a dropdown moves to another
//    cell, "b" inserts one, "d d" deletes one. Plain keys that go to a control of this group stay in the group.
// 2. Copying text: Python sets `clipboard`, the browser copies it and says so in `copied`.

const CONTROL = "input, select, textarea, button, [role=slider]";
const isShortcut = (event) => event.ctrlKey || event.metaKey || event.altKey || event.key === "Escape" || (event.shiftKey && event.key === "Enter");

export function keepKeys(group) {
  const keep = (event) => {
    if (event.target.matches?.(CONTROL) && !isShortcut(event)) event.stopPropagation();
  };
  const mark = (event) => event.target.matches?.(CONTROL) && event.target.setAttribute("data-lm-suppress-shortcuts", "true");
  group.addEventListener("keydown", keep);
  group.addEventListener("focusin", mark);
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
  for (const line of group.querySelectorAll(".lp-live")) line.setAttribute("aria-live", "polite");
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
    let patience = 100;
    const enter = () => {
      const group = el.closest(".lp-controls");
      if (group) {
        keepKeys(group);
        for (const pause of [500, 2000, 8000]) setTimeout(() => nameControls(group), pause); // its members come one by one
        group.addEventListener("focusin", () => nameControls(group));
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
