// Runs in the page beside an explorer. Sliders of ipywidgets have no accessible name: each gets that
// of its label, and a slider over words says the word, not its place. Keys pressed in it stay in it.
// When the picture has changed and rested a little, its first changed line is spoken. Where the system
// has no Chinese font, that of the figures is used; the kernel sends it, once a page.
const REST_MS = 600;
const ANSWER_MS = 20000;
const FONT = "Attention by Hand";

const hasFont = () => [...document.fonts].some((font) => font.family.includes(FONT));

function useFont(box) {
  const family = getComputedStyle(box).getPropertyValue("--jp-ui-font-family") || "sans-serif";
  if (family.includes(FONT)) return;
  box.style.setProperty("--jp-ui-font-family", `${family}, "${FONT}"`);
  // Chromium keeps text as it was shaped before the font came. A spacing that no eye sees makes it
  // shape again; form controls inherit neither it nor the font.
  for (const part of [box, ...box.querySelectorAll("button, input, select")]) {
    part.style.letterSpacing = "0.01px";
    part.style.fontFamily = "var(--jp-ui-font-family)";
  }
}

function bringFont(model) {
  if (hasFont() || window.byhandAsked) return;
  window.byhandAsked = true;
  setTimeout(() => (window.byhandAsked = false), ANSWER_MS); // the kernel may be gone
  model.on("msg:custom", async (what, buffers) => {
    if (what !== "font") return;
    // Named in the style only once it is there: text drawn before is then drawn again.
    document.fonts.add(await new FontFace(FONT, buffers[0]).load());
    document.querySelectorAll(".byhand-explorer").forEach(useFont);
    // In a formula MathJax asks the system for what its own fonts lack.
    const formulas = `.byhand-explorer mjx-utext { font-family: serif, "${FONT}" !important }`;
    document.head.append(Object.assign(document.createElement("style"), { textContent: formulas }));
  });
  model.send("font");
}

function nameSliders(box) {
  for (const slider of box.querySelectorAll(".widget-slider")) {
    const name = slider.querySelector(".widget-label")?.textContent;
    const handle = slider.querySelector('[role="slider"]');
    const readout = slider.querySelector(".widget-readout");
    if (readout && slider.classList.contains("byhand-stops")) readout.contentEditable = "false";
    if (!name || !handle || !readout) continue;
    handle.setAttribute("aria-label", name);
    if (readout.isContentEditable) {
      readout.setAttribute("role", "textbox");
      readout.setAttribute("aria-label", name);
    }
    handle.setAttribute("aria-valuetext", readout.textContent); // of a slider over words, the word
  }
}

// JupyterLab would take the arrow keys to go from cell to cell, and d d to delete this one. It keeps
// what is pressed with Ctrl or Cmd. It looks for the attribute on what has the focus; its listener is
// on the document, so this one comes before it.
function keepKeys(box) {
  const decide = (event) => {
    if (box.contains(event.target)) {
      const plain = !event.ctrlKey && !event.metaKey;
      event.target.toggleAttribute("data-lm-suppress-shortcuts", plain);
    }
  };
  window.addEventListener("keydown", decide, true);
  return () => window.removeEventListener("keydown", decide, true);
}

function addStyle() {
  if (document.getElementById("byhand-style")) return;
  const style = document.createElement("style");
  style.id = "byhand-style";
  style.textContent =
    ".byhand-explorer .noUi-handle:focus { outline: 2px solid #D55E00; outline-offset: 2px }" +
    ".byhand-explorer .byhand-waits { opacity: 0.25 }"; // a formula that is behind the drawing
  document.head.append(style);
}

function lines(box) {
  const told = box.querySelector("svg[role=img]")?.getAttribute("aria-label") ?? "";
  return told.split("\n");
}

export default {
  render({ model, el }) {
    bringFont(model);
    el.setAttribute("aria-live", "polite");
    Object.assign(el.style, {
      position: "absolute", width: "1px", height: "1px", overflow: "hidden", clipPath: "inset(50%)",
    });
    let observer, timer, frame, before, letGo;
    const begin = () => {
      const box = el.closest(".byhand-explorer");
      if (!box) {
        frame = requestAnimationFrame(begin); // not in the page yet
        return;
      }
      if (hasFont()) useFont(box);
      nameSliders(box);
      addStyle();
      letGo = keepKeys(box);
      before = lines(box);
      observer = new MutationObserver((changes) => {
        if (changes.every((change) => el.contains(change.target))) return;
        nameSliders(box);
        clearTimeout(timer);
        timer = setTimeout(() => {
          const now = lines(box);
          if (now.length < 2) return; // a message, which is spoken as an alert
          const changed = now.find((line, n) => n > 0 && line !== before[n]);
          before = now;
          if (changed) el.textContent = changed;
        }, REST_MS);
      });
      observer.observe(box, { childList: true, subtree: true });
    };
    begin();
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      observer?.disconnect();
      letGo?.();
    };
  },
};
