// What may stand next in a condition on runs, as somebody writes it: fields, what compares them, values.
// Without this script the field offers whole conditions to begin with.
// @ts-check

/** @returns {{list: HTMLElement, begin: string[]} | null} */
function start() {
  const list = document.getElementById("conditions");
  return list && { list, begin: [...list.querySelectorAll("option")].map((o) => o.value) };
}
const help = start();
const words = (/** @type {string | undefined} */ text) => (text || "").split(" ").filter((w) => w !== "");

/** The values that a field may have here. @param {string} field @returns {string[]} */
function valuesOf(field) {
  if (field === "status") return words(help?.list.dataset.statuses);
  if (field !== "workflow") return [];
  return [...document.querySelectorAll("select[name=workflow] option")].map((o) => /** @type {HTMLOptionElement} */ (o).value).filter((v) => v !== "");
}

/** @param {string} text that stands before what is offered @param {string} begun @param {string[]} all */
const offer = (text, begun, all) => all.filter((w) => w.startsWith(begun) && w !== begun).map((w) => text.slice(0, text.length - begun.length) + w);

/** The texts that a condition may become next. @param {string} text @returns {string[]} */
export function complete(text) {
  const fields = words(help?.list.dataset.fields);
  let m = /(\w+)\s*(?:[=!]=\s*|in\s*\[(?:\s*"[^"]*"\s*,)*\s*)("?[^"\s]*)$/.exec(text);
  if (m && valuesOf(m[1]).length > 0) return offer(text, m[2], valuesOf(m[1]).map((v) => JSON.stringify(v)));
  m = /(?:^|[\s(!])(\w+)(?:\.[\w]+)?\s+([=!<>a-z]*)$/.exec(text);
  if (m && fields.includes(m[1])) return offer(text, m[2], /^(started|ended)$/.test(m[1]) ? ['> timestamp("', '< timestamp("', "== null"] : /^(version|seq)$/.test(m[1]) ? ["== ", "!= ", "> ", "< "] : ['== "', '!= "', "in ["]);
  m = /["\])]\s+([&|]*)$/.exec(text);
  if (m) return offer(text, m[1], ["&& ", "|| "]);
  m = /(?:^|[\s(!])(\w*)$/.exec(text);
  return m && !/\w\s+$/.test(text) ? offer(text, m[1], fields.map((f) => f === "labels" ? "labels." : f + " ")) : [];
}

document.addEventListener("input", (e) => {
  const field = e.target instanceof HTMLInputElement && e.target.name === "where" ? e.target : null;
  if (!field || !help || field.selectionEnd !== field.value.length) return;
  const texts = field.value === "" ? help.begin : complete(field.value);
  help.list.replaceChildren(...texts.map((text) => Object.assign(document.createElement("option"), { value: text })));
});
