// The slider: the run as it stood after any of its records. While it moves, the counts of the
// nodes are folded from one list, here; when the hand rests, the server says the rest.
// @ts-check
import { morph, notify } from "./live.js";

const words = ["failed", "parked", "retrying", "running", "waiting", "done", "cancelled"];
const symbols = ["✗", "■", "↻", "▶", "◌", "✓", "−"];
const reading = [5, 0, 1, 2, 3, 4, 6];

/** @typedef {{seq: number, nodes: string[], steps: [number, number, number, number][]}} Past */
/** @type {Promise<Past> | null} */
let past = null;
let timer = 0;
let newest = 0;

/** @param {HTMLElement} form */
function load(form) {
  past ??= fetch(/** @type {string} */ (form.dataset.steps)).then((r) => { if (!r.ok) throw new Error(r.statusText); return r.json(); });
  return past;
}

/** @param {Past} p @param {number} at @returns {Map<string, number[]>} */
function fold(p, at) {
  const counts = p.nodes.map(() => [0, 0, 0, 0, 0, 0, 0]);
  for (const [record, node, standing, by] of p.steps) {
    if (record > at) break;
    counts[node][standing] += by;
  }
  return new Map(p.nodes.map((node, i) => [node, counts[i]]));
}

/** @param {Map<string, number[]>} counts */
function draw(counts) {
  const none = [0, 0, 0, 0, 0, 0, 0];
  for (const node of document.querySelectorAll("#graph [data-node]")) {
    const of = counts.get(node.getAttribute("data-node") || "") || none;
    const worst = of.findIndex((n) => n > 0);
    node.classList.remove(...words, "unreached");
    node.classList.add(worst < 0 ? "unreached" : words[worst]);
    for (const line of node.querySelectorAll("text.small")) {
      const kind = words.findIndex((w) => line.classList.contains("is-" + w));
      if (kind >= 0) line.textContent = of[kind] > 0 ? symbols[kind] + " " + of[kind].toLocaleString("en") + " " + words[kind] : "";
    }
  }
  for (const row of document.querySelectorAll("#nodes tr[data-node]")) {
    const of = counts.get(row.getAttribute("data-node") || "") || none;
    const cell = row.querySelector("td");
    if (!cell) continue;
    const parts = reading.filter((i) => of[i] > 0).map((i) => {
      const part = document.createElement("span");
      part.className = "count " + words[i];
      const n = document.createElement("b");
      n.textContent = of[i].toLocaleString("en");
      part.append(n, " " + words[i] + " ");
      return part;
    });
    const nothing = document.createElement("span");
    nothing.className = "muted";
    nothing.textContent = "not reached";
    cell.replaceChildren(...(parts.length ? parts : [nothing]));
  }
}

/** Shows what the server says of a record. While it is busy it is asked again; another refusal is shown as that of a link. @param {HTMLFormElement} form @param {number} at */
async function rest(form, at) {
  const mine = ++newest;
  const address = new URL(location.href);
  // @ts-ignore: all fields are texts
  address.search = "?" + new URLSearchParams(new FormData(form));
  const answer = await fetch(address).catch(() => null);
  const text = await answer?.text().catch(() => null);
  if (mine !== newest) return;
  const seconds = typeof text === "string" ? Number(answer?.headers.get("Retry-After")) : 5;
  if (seconds > 0) {
    notify("record", "Record " + at + " is not shown whole yet, as the server " + (answer ? "is busy" : "does not answer") + "; the page keeps trying.");
    timer = setTimeout(() => rest(form, at), seconds * 1000);
    return;
  }
  if (!answer?.ok) { location.assign(address); return; }
  notify("record", "");
  const main = new DOMParser().parseFromString(text || "", "text/html").getElementById("main");
  if (!main) return;
  document.body.dataset.at = String(at);
  history.replaceState(null, "", address);
  morph(main.innerHTML);
}

document.addEventListener("input", async (e) => {
  const range = /** @type {HTMLInputElement} */ (e.target);
  if (range.id !== "record" || !range.form) return;
  const form = range.form;
  const at = Number(range.value);
  document.body.dataset.at = range.value;
  const out = document.getElementById("record-number");
  if (out) out.textContent = range.value;
  newest++; // an answer that is still to come is of a record that the hand has left
  clearTimeout(timer);
  timer = setTimeout(() => rest(form, at), 180);
  try {
    let p = await load(form);
    if (at > p.seq) { // the run has gone on since
      past = null;
      p = await load(form);
    }
    if (Number(range.value) === at && at <= p.seq) requestAnimationFrame(() => draw(fold(p, at)));
  } catch {
    past = null;
  }
});
if (new URL(location.href).searchParams.has("at")) document.body.dataset.at = "url";
