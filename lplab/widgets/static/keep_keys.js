/** The attribute by which JupyterLab's shortcuts pass over the element that has the focus. */
const SUPPRESSED = "data-lm-suppress-shortcuts";

/**
 * Whether a key goes to the control that has the focus, not to a shortcut: each key without Ctrl, Alt or Meta, but for
 * Escape, Shift+Enter and F1 to F12; what AltGr types; and undoing and redoing in a text field.
 */
function isOwn(event) {
  if (event.getModifierState?.("AltGraph")) return true; // Windows calls it Ctrl+Alt
  if (/^(Alt|Control|Meta)$/.test(event.key)) return true; // after one of them JupyterLab undoes in cells alone
  if (event.altKey) return false;
  if (event.ctrlKey || event.metaKey) return /^[yz]$/i.test(event.key) && event.target.matches(":read-write");
  return !(event.key === "Escape" || /^F\d+$/.test(event.key) || (event.shiftKey && event.key === "Enter"));
}

/**
 * Shares the keys between the controls in a group and Jupyter. In command mode Jupyter takes keys from whatever has the
 * focus: an arrow on a dropdown moves to another cell, "b" inserts one, "d d" deletes one, "0 0" restarts the kernel.
 */
function keepKeys(group) {
  group.addEventListener("keydown", (event) => isOwn(event) && event.stopPropagation());
  if (window.lpKeepsKeys) return; // the rest is done once in a page
  window.lpKeepsKeys = true;
  const share = (event) => {
    const control = event.target;
    if (!control.closest?.(".lp-controls, .lp-bits, .lp-mechanism")) return;
    const own = isOwn(event);
    const handle = control.closest(".noUi-origin"); // noUiSlider moves it at arrows with Ctrl and Alt, too
    control.toggleAttribute(SUPPRESSED, own);
    handle?.toggleAttribute("disabled", !own);
    if (!own && control.matches(":read-write")) event.stopPropagation = () => {}; // ipywidgets keeps all keys of a text
    setTimeout(() => {
      control.removeAttribute(SUPPRESSED);
      handle?.removeAttribute("disabled");
    });
  };
  window.addEventListener("keydown", share, { capture: true }); // Notebook listens at the document, in this phase
}
