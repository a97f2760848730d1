// The timeline as the reader zooms it: wheel with Ctrl, a drag over a part of it, keys and buttons.
// Without this script it shows the whole time.
// @ts-check
import { span } from "./live.js";

const most = 200; // times as wide as the page
let zoom = 1;
let from = 0; // where the part begins that is shown, of 1
let whole = { begin: 0, span: 0 }; // the time of which that is a part, in milliseconds

/** @returns {HTMLElement | null} */
const lanes = () => document.getElementById("lanes");

function draw() {
  const box = lanes();
  if (!box) return;
  follow({ begin: Number(box.dataset.from), span: Number(box.dataset.span) });
  zoom = Math.min(Math.max(zoom, 1), most);
  from = Math.min(Math.max(from, 0), 1 - 1 / zoom);
  box.style.setProperty("--zoom", String(zoom));
  box.style.setProperty("--from", String(from));
  const buttons = document.getElementById("zoom");
  if (buttons) buttons.hidden = false;
  const ticks = box.querySelectorAll(".ticks span");
  ticks.forEach((tick, i) => {
    const told = zoom > 1 ? text(whole.begin + whole.span * (from + i / (ticks.length - 1) / zoom)) : tick.getAttribute("data-text");
    if (tick.textContent !== told) tick.textContent = told;
  });
}

/** Keeps the same part in view if the whole time is another one now, as it is while a run goes on. @param {{begin: number, span: number}} now */
function follow(now) {
  if (zoom > 1 && whole.span > 0 && now.span > 0) {
    from = (whole.begin + whole.span * from - now.begin) / now.span;
    zoom *= now.span / whole.span;
  }
  whole = now;
}

/** @param {number} ms @returns {string} */
const text = (ms) => ms < 1000 ? Math.round(ms * 10) / 10 + " ms" : ms < 60000 ? Math.round(ms) / 1000 + " s" : span(ms);

/** Zooms so that the place that is pointed at stays. @param {number} by @param {number} [at] of 1, of what is shown */
function change(by, at = 0.5) {
  const place = from + at / zoom;
  zoom = Math.min(Math.max(zoom * by, 1), most);
  from = place - at / zoom;
  draw();
}

/** @param {MouseEvent} e @returns {number} where in what is shown, of 1 */
function placeOf(e) {
  const track = lanes()?.querySelector(".ticks")?.getBoundingClientRect();
  return track ? Math.min(Math.max((e.clientX - track.left) / track.width, 0), 1) : 0.5;
}

/** @param {string} key @returns {boolean} whether it does something here */
function press(key) {
  switch (key) {
    case "+": case "=": change(2); return true;
    case "-": change(1 / 2); return true;
    case "0": zoom = 1; draw(); return true;
    case "ArrowLeft": if (zoom === 1) return false; from -= 0.2 / zoom; draw(); return true;
    case "ArrowRight": if (zoom === 1) return false; from += 0.2 / zoom; draw(); return true;
  }
  return false;
}

addEventListener("wheel", (e) => {
  const box = lanes(), over = e.target instanceof Element && e.target.closest(".track, .ticks");
  if (!box || !over) return;
  if (e.ctrlKey || e.metaKey) change(Math.exp(-e.deltaY / 200), placeOf(e));
  else if (zoom > 1 && Math.abs(e.deltaX) > Math.abs(e.deltaY)) { from += e.deltaX / 800 / zoom; draw(); } else return;
  e.preventDefault();
}, { passive: false });

/** @type {{at: number, x: number, mark: HTMLElement} | null} */
let drag = null;
addEventListener("pointerdown", (e) => {
  const box = lanes(), over = e.target instanceof Element && e.target.closest(".track, .ticks");
  if (!box || !over || e.button !== 0 || e.pointerType === "touch") return;
  endDrag(); // one that ended elsewhere
  const mark = document.createElement("div");
  mark.className = "zoom-mark";
  drag = { at: placeOf(e), x: e.clientX, mark };
});
addEventListener("pointermove", (e) => {
  const box = lanes(), track = box?.querySelector(".ticks")?.getBoundingClientRect();
  if (!drag || !box || !track || Math.abs(e.clientX - drag.x) < 4) return;
  const to = placeOf(e), left = Math.min(drag.at, to), outer = box.getBoundingClientRect();
  drag.mark.style.left = track.left - outer.left + left * track.width + "px";
  drag.mark.style.width = Math.abs(to - drag.at) * track.width + "px";
  box.append(drag.mark);
  getSelection()?.removeAllRanges();
});
addEventListener("pointerup", (e) => {
  if (!drag) return;
  const to = placeOf(e), left = Math.min(drag.at, to), width = Math.abs(to - drag.at), moved = Math.abs(e.clientX - drag.x) >= 4;
  endDrag();
  if (!moved || width <= 0) return;
  from += left / zoom;
  zoom /= width;
  draw();
});
// What the system takes over, such as a gesture of a pen, has no end here.
addEventListener("pointercancel", endDrag);

function endDrag() {
  drag?.mark.remove();
  drag = null;
}
addEventListener("dblclick", (e) => { if (e.target instanceof Element && e.target.closest(".track, .ticks")) press("0"); });
addEventListener("click", (e) => {
  const button = e.target instanceof Element ? e.target.closest("[data-zoom]") : null;
  if (button) press(button.getAttribute("data-zoom") || "");
});
addEventListener("keydown", (e) => {
  const target = /** @type {HTMLElement} */ (e.target);
  if (!lanes() || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || target.matches("input, select, textarea, [contenteditable]")) return;
  if (press(e.key)) e.preventDefault();
});
document.addEventListener("pawl:frame", draw);
draw();
