// Words of the glossary open where they stand: a link to one shows its entry beside it, on hover, focus and tap.
//
// A tap shows the entry, a second one follows the link. Escape closes it. A screen reader hears it as the description
// of the link. A front end that keeps this script from its texts has links as before.

const WAIT = 150; // milliseconds before the pointer opens an entry, and before it closes one
const LINK = /glossary\.(?:md|html)(?:\?[^#]*)?#([\w-]+)$/; // JupyterLab adds a token behind the name of the file

/** Lets the links of this page show `words`, by the anchors of the glossary. Once is enough for a page. */
export function explain(words) {
  if (document.getElementById("lp-word")) return;
  const box = document.createElement("div");
  box.id = "lp-word";
  box.setAttribute("role", "tooltip");
  box.hidden = true;
  document.body.append(box);
  let shown, timer, touched; // the link whose entry is shown; what waits; whether a finger came last

  /** The link to a word in which an event happened, also inside of a shadow. */
  const linkOf = (event) => event.composedPath().find((el) => el.localName === "a" && words[LINK.exec(el.getAttribute("href") ?? "")?.[1]]);

  function place() {
    const link = shown.getClientRects()[0] ?? shown.getBoundingClientRect();
    const [wide, high] = [box.offsetWidth, box.offsetHeight];
    const below = link.bottom + 6 + high <= innerHeight || link.top < high + 6;
    box.style.left = `${Math.max(8, Math.min(link.left, innerWidth - wide - 8))}px`;
    box.style.top = `${below ? link.bottom + 6 : link.top - high - 6}px`;
  }

  function show(link) {
    clearTimeout(timer);
    if (shown === link) return;
    hide();
    shown = link;
    box.innerHTML = words[LINK.exec(link.getAttribute("href"))[1]];
    box.hidden = false;
    link.setAttribute("aria-describedby", box.id);
    place();
  }

  function hide() {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = undefined;
    box.hidden = true;
  }

  const later = (action) => {
    clearTimeout(timer);
    timer = setTimeout(action, WAIT);
  };
  const onBox = (event) => event.composedPath().includes(box);
  const on = (names, listener) => names.split(" ").forEach((name) => document.addEventListener(name, listener, { capture: true, passive: false }));
  on("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = linkOf(event);
    if (link) later(() => show(link));
    else if (onBox(event)) clearTimeout(timer); // the pointer may go over to the entry, to mark a word of it
    else if (shown && shown !== document.activeElement) later(hide);
    else clearTimeout(timer);
  });
  on("focusin", (event) => {
    const link = linkOf(event);
    if (link && !touched) show(link);
  });
  on("focusout", (event) => linkOf(event) && hide());
  on("keydown", (event) => {
    touched = false;
    if (event.key === "Escape") hide();
  });
  on("pointerdown", (event) => {
    touched = event.pointerType === "touch";
    if (!onBox(event) && linkOf(event) !== shown) hide();
  });
  on("click", (event) => {
    const link = linkOf(event);
    if (!link) return;
    if (touched && link !== shown) {
      event.preventDefault();
      event.stopPropagation();
      show(link);
    } else hide();
  });
  on("scroll", () => shown && place());
  addEventListener("resize", hide);
}

export default {
  render({ model }) {
    explain(model.get("words"));
  },
};
