// The page as it is now: frames of its main part come as server-sent events and are morphed into
// it, so that focus, scroll and what is open stay. Times are told in the viewer's zone.
// @ts-check

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const band = /** @type {HTMLElement} */ (document.getElementById("band"));
let address = document.body.dataset.live;

/** @type {EventSource | null} */
let stream = null;
let heard = Date.now();
/** @type {string | null} */
let waiting = null;

/** What people have opened, chosen or written stays as they left it. */
const keep = {
  morphStyle: "innerHTML",
  ignoreActiveValue: true,
  restoreFocus: true,
  callbacks: {
    /** @param {string} name @param {Element} node */
    beforeAttributeUpdated: (name, node) => !(name === "open" || (name === "checked" && node.matches("input")) || name === "data-at"),
  },
};

/** @param {string} text of a frame */
function show(text) {
  const frame = JSON.parse(text);
  // @ts-ignore: the vendored script sets it
  window.Idiomorph.morph(main, frame.html, keep);
  const made = document.querySelector("#as-of[data-made]");
  if (made) made.textContent = "as of " + new Date().toISOString().slice(11, 19) + " UTC";
  document.dispatchEvent(new CustomEvent("pawl:frame", { detail: frame }));
  document.title = document.title.replace(/^[^·]*/, frame.title + " ");
  if (frame.ended) { close(); delete document.body.dataset.live; address = undefined; }
  heard = Date.now();
  tell();
}

function open() {
  if (!address || stream || document.hidden) return;
  stream = new EventSource(address);
  stream.addEventListener("frame", (e) => {
    const first = waiting === null;
    waiting = e.data;
    if (first) requestAnimationFrame(() => { const text = waiting; waiting = null; if (text !== null && !document.body.dataset.at) show(text); });
  });
  stream.onopen = () => { heard = Date.now(); band.hidden = true; };
  stream.onerror = () => {
    band.hidden = false;
    band.textContent = "The stream is broken. What you see is as of " + new Date(heard).toLocaleTimeString() + "; the page keeps trying.";
    if (stream && stream.readyState === EventSource.CLOSED) { close(); setTimeout(open, 5000); }
  };
}

function close() {
  if (stream) stream.close();
  stream = null;
}

/** @param {number} ms @returns {string} a duration in words, as the server says it */
export function span(ms) {
  const s = ms / 1000;
  if (s < 10) return Math.round(s * 10) / 10 + " s";
  if (s < 60) return Math.floor(s) + " s";
  if (s < 600) return Math.floor(s / 60) + " min" + (Math.floor(s) % 60 ? " " + Math.floor(s) % 60 + " s" : "");
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 172800) return Math.floor(s / 3600) + " h" + (Math.floor(s / 60) % 60 ? " " + Math.floor(s / 60) % 60 + " min" : "");
  return Math.floor(s / 86400) + " days";
}

/** Tells times anew: how long ago, and in the viewer's zone for who points at them. */
function tell() {
  const now = Date.now();
  for (const t of main.querySelectorAll("time[datetime]")) {
    const at = Date.parse(t.getAttribute("datetime") || "");
    if (Number.isNaN(at)) continue;
    const title = new Date(at).toLocaleString() + " (" + (t.getAttribute("datetime") || "").replace("T", " ").replace("Z", " UTC") + ")";
    if (t.getAttribute("title") !== title) t.setAttribute("title", title);
    if (t.closest(".mono")) continue;
    const d = now - at;
    const text = Math.abs(d) < 1000 ? "now" : d > 0 ? span(d) + " ago" : "in " + span(-d);
    if (t.textContent !== text) t.textContent = text;
  }
  const asOf = document.getElementById("as-of");
  if (asOf && (address || "made" in asOf.dataset) && !document.body.dataset.at) asOf.dataset.heard = span(now - heard);
}

document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
addEventListener("pagehide", close);
addEventListener("pageshow", open);
open();
tell();
setInterval(() => { if (!document.hidden) tell(); }, 1000);

/** Scrolls a row or a picture so that a part of it is in the middle. @param {Element} part @param {Element | null} within */
function centre(part, within) {
  if (!within) return;
  const at = within.getBoundingClientRect(), box = part.getBoundingClientRect();
  within.scrollLeft += box.left + box.width / 2 - at.left - at.width / 2;
}

/** Shows the chosen entry of the menu and of the tabs, which scroll on a telephone. */
function showEntries() {
  for (const entry of document.querySelectorAll(".top nav [aria-current], .tabs [aria-current]")) centre(entry, entry.parentElement);
}

addEventListener("resize", showEntries);
showEntries();
for (const graph of document.querySelectorAll(".picture .graph")) { // a wide one begins where the run stands, or where it starts
  const node = ["chosen", "changed", "added", "failed", "parked", "waiting", "retrying", "running", "start"].map((kind) => graph.querySelector(".node." + kind)).find(Boolean);
  if (node) centre(node, graph.closest(".picture"));
}
