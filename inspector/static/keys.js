// Keys: every page can be used without a mouse. A key does what a link or a button does.
// @ts-check

const root = document.body.dataset.root || "";
const pages = { h: "./", r: "runs", i: "inbox", d: "definitions", s: "schedules", p: "workers", e: "engine" };
const help = [
  ["/", "find runs"], ["j k", "next row, row before; Enter opens it"], ["g h", "overview"], ["g r", "runs"], ["g i", "inbox"], ["g d", "definitions"], ["g s", "schedules"], ["g p", "workers, who perform the tasks"], ["g e", "engine"],
  ["w", "why the run stands here"], ["[ ]", "a record back, a record on"], ["n", "next branch that failed"], ["+ -", "zoom into the timeline, and out"], ["0", "the whole timeline"], ["u", "up"], ["?", "this list"],
];
let before = "";

/** @returns {HTMLElement[]} the first link of each row */
function rows() {
  /** @type {HTMLElement[]} */
  const out = [];
  for (const row of document.querySelectorAll("main tbody tr, main .cards > li, main .workflows > li, main .groups > li, main .reason, main .need")) {
    const link = row.querySelector("a[href]");
    if (link instanceof HTMLElement && link.offsetParent !== null) out.push(link);
  }
  return out;
}

/** @param {number} by */
function step(by) {
  const all = rows();
  if (all.length === 0) return;
  const active = document.activeElement;
  let at = all.findIndex((a) => a === active || (active !== document.body && a.closest("tr, li, .reason")?.contains(active)));
  at = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
  all[at].focus();
  all[at].scrollIntoView({ block: "nearest" });
}

/** @param {string} key */
function press(key) {
  const link = document.querySelector(`[data-key="${key}"]`);
  if (link instanceof HTMLElement) link.click();
  return link !== null;
}

function list() {
  let box = /** @type {HTMLDialogElement | null} */ (document.getElementById("keys"));
  if (!box) {
    box = document.createElement("dialog");
    box.id = "keys";
    const title = document.createElement("h2");
    title.textContent = "Keys";
    const dl = document.createElement("dl");
    for (const [key, text] of help) {
      const dt = document.createElement("dt");
      for (const k of key.split(" ")) {
        const kbd = document.createElement("kbd");
        kbd.textContent = k;
        dt.append(kbd, " ");
      }
      const dd = document.createElement("dd");
      dd.textContent = text;
      dl.append(dt, dd);
    }
    const form = document.createElement("form");
    form.method = "dialog";
    const button = document.createElement("button");
    button.textContent = "Close";
    form.append(button);
    box.append(title, dl, form);
    document.body.append(box);
  }
  if (box.open) box.close(); else box.showModal();
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
  const target = /** @type {HTMLElement} */ (e.target);
  if (target.matches("input:not([type=checkbox]):not([type=range]), select, textarea, [contenteditable]")) {
    if (e.key === "Escape") target.blur();
    return;
  }
  const key = e.key;
  if (before === "g" && key in pages) {
    before = "";
    // @ts-ignore: it is a key of pages
    location.href = root + pages[key];
    e.preventDefault();
    return;
  }
  before = key;
  let done = true;
  switch (key) {
    case "j": step(1); break;
    case "k": step(-1); break;
    case "?": list(); break;
    case "w": {
      const why = /** @type {HTMLElement | null} */ (document.querySelector("#why a, #why summary"));
      if (why) { why.focus(); why.scrollIntoView({ block: "center" }); } else done = press("w");
      break;
    }
    case "/": {
      const find = document.getElementById("find");
      if (find) find.focus(); else location.href = root + "runs#find";
      break;
    }
    case "u": {
      const up = document.querySelectorAll(".crumbs a");
      if (up.length > 0) /** @type {HTMLElement} */ (up[up.length - 1]).click(); else location.href = root + "./";
      break;
    }
    case "[": case "]": case "n": done = press(key); break;
    default: done = false;
  }
  if (done) e.preventDefault();
});
if (location.hash === "#find") document.getElementById("find")?.focus();
