// The page as it is now: frames of its main part come as server-sent events and are morphed into
// it, so that focus, scroll and what is open stay. Times are told in the viewer's zone.
// @ts-check

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const band = /** @type {HTMLElement} */ (document.getElementById("band"));
const name = document.querySelector(".top .name")?.textContent || "";
let address = document.body.dataset.live;

/** @type {EventSource | null} */
let stream = null;
let heard = Date.now();
/** @type {string | null} */
let waiting = null;

/** @type {Map<string, string>} */
const notices = new Map();

/** Says in the band that something is not as it should be, or with "" that it is again. @param {string} about @param {string} text */
export function notify(about, text) {
  notices.set(about, text);
  band.textContent = [...notices.values()].filter(Boolean).join(" ");
  band.hidden = band.textContent === "";
}

/** The parts of a page that move, come and go: rows, cards, and the fields of values. */
const moving = "tbody tr, .cards > li, .groups > li, .workflows > li, .reason, .lane, .parts > li";

/** Gives each part that moves an id made from where it leads or what it is called, below that of the part around it. @param {Element} root */
function nameParts(root) {
  /** @type {Map<string, number>} */
  const taken = new Map();
  for (const part of root.querySelectorAll(moving)) {
    const called = part.matches(".parts > li") ? part.querySelector(".key")?.textContent : part.querySelector("a[href]")?.getAttribute("href");
    if (!called) continue;
    const around = part.parentElement?.closest("[id], [aria-labelledby]");
    const id = "part:" + (around?.id || around?.getAttribute("aria-labelledby")) + "/" + called, before = taken.get(id) || 0;
    taken.set(id, before + 1);
    part.id = before ? id + " " + before : id;
  }
}

/** @param {HTMLFormElement} form @returns {string} */
const written = (form) => JSON.stringify([...new FormData(form)]);

/** @param {Element} details @returns {string | null | undefined} */
const keyOf = (details) => details.querySelector("summary > .key")?.textContent;

/** Lets an element become what the server has made. What was chosen or opened is not carried over to something else. @param {any} was @param {any} made @returns {boolean} whether it does */
function become(was, made) {
  if (was instanceof HTMLFormElement && was.matches(".filters, .around")) return !was.contains(document.activeElement) && written(was) === written(made);
  if (was instanceof HTMLInputElement && was.value !== made.value) was.checked = made.checked;
  if (was instanceof HTMLDetailsElement && keyOf(was) !== keyOf(made)) was.open = made.open;
  return true;
}

/** Morphs the main part of the page into another one. What people have opened, chosen or written stays as they left it. @param {string} html */
export function morph(html) {
  const made = document.createElement("main");
  made.id = main.id;
  made.innerHTML = html;
  nameParts(main);
  nameParts(made);
  // @ts-ignore: the vendored script sets it
  window.Idiomorph.morph(main, made.childNodes, {
    morphStyle: "innerHTML",
    ignoreActiveValue: document.activeElement?.matches("input, select, textarea"), // it would leave the texts of links as well
    restoreFocus: true,
    callbacks: {
      beforeNodeMorphed: become,
      /** @param {string} name @param {Element} node */
      beforeAttributeUpdated: (name, node) => !(name === "open" || (name === "checked" && node.matches("input"))),
    },
  });
}

/** @param {string} text of a frame */
function show(text) {
  const frame = JSON.parse(text);
  morph(frame.html);
  const made = document.querySelector("#as-of[data-made]");
  if (made) made.textContent = "as of " + new Date().toISOString().slice(11, 19) + " UTC";
  document.dispatchEvent(new CustomEvent("pawl:frame", { detail: frame }));
  document.title = [frame.title, name, "pawl"].filter(Boolean).join(" · ");
  if (frame.ended) { close(); delete document.body.dataset.live; address = undefined; notify("stream", ""); }
  tell();
}

// Over HTTP/1.1 a browser has six connections to a host, for all pages together. So the few pages that were
// shown last keep a stream, and the others look every few seconds, by a stream that ends with its first frame.
const streams = 4, pause = 3000;
const pages = new BroadcastChannel("pawl-streams"), me = Math.random();
/** @type {Set<number>} the pages whose streams began after that of this page */
const later = new Set();
let kept = false; // whether the stream goes on after its first frame
let timer = 0;

pages.onmessage = ({ data }) => {
  if (data.ends) later.delete(data.page); else later.add(data.page);
  if (kept && later.size >= streams) { close(); lookIn(pause); }
};

/** Begins a stream to keep, for which the page that was shown the longest ago gives up its own. */
function open() {
  if (!address || stream || document.hidden) return;
  later.clear();
  kept = true;
  pages.postMessage({ page: me });
  listen();
}

/** Looks once, or begins a stream if few pages have one. */
function look() {
  if (later.size < streams) open();
  else if (address && !stream && !document.hidden) listen();
}

/** @param {number} ms */
function lookIn(ms) {
  clearTimeout(timer);
  timer = setTimeout(look, ms);
}

function listen() {
  stream = new EventSource(/** @type {string} */ (address));
  stream.addEventListener("frame", (e) => {
    heard = Date.now();
    notify("stream", "");
    const first = waiting === null;
    waiting = e.data;
    if (!kept) { close(); lookIn(pause); }
    if (first) requestAnimationFrame(() => { const text = waiting; waiting = null; if (text !== null && !document.body.dataset.at) show(text); });
  });
  stream.addEventListener("gone", (e) => {
    notify("stream", "There is no such page any more: " + JSON.parse(e.data) + ". What you see is as of " + new Date(heard).toLocaleTimeString() + ".");
    close();
    delete document.body.dataset.live;
    address = undefined;
  });
  stream.onerror = () => {
    notify("stream", "The stream is broken. What you see is as of " + new Date(heard).toLocaleTimeString() + "; the page keeps trying.");
    if (stream && stream.readyState === EventSource.CLOSED) { close(); lookIn(5000); }
  };
}

function close() {
  if (kept) pages.postMessage({ page: me, ends: true });
  kept = false;
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
