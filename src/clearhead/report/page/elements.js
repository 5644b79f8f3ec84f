// ---- elements: everything that enters the page enters as text --------------------------------

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function find(id) {
  return document.getElementById(id);
}

function bar(share) {
  const rect = svg("rect", { width: fixed(100 * Math.min(1, share), 2), height: 8 });
  const frame = { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" };
  return svg("svg", frame, rect);
}

// How good a number is: exact, pooled (one stands for many) or truncated (a bound is all there is).
function mark(kind) {
  return el("span", { class: `mark ${kind}` }, kind);
}

function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

// One of a few: buttons side by side, the chosen one pressed.
function segmented(label, options, chosen, choose) {
  const buttons = options.map(([value, name, why]) =>
    button(name, () => choose(value), {
      "aria-pressed": value === chosen ? "true" : "false",
      disabled: Boolean(why),
      title: why,
      "data-value": value,
    }),
  );
  return el("div", { class: "segmented", role: "group", "aria-label": label }, el("span", {}, label), buttons);
}

// Redraw a row of controls without losing the place of whoever uses the keyboard.
function redrawn(holder, controls) {
  const had = holder.contains(document.activeElement) ? document.activeElement : null;
  const place = had ? [...holder.querySelectorAll("button, select")].indexOf(had) : -1;
  holder.replaceChildren(...controls);
  holder.hidden = false;
  if (place >= 0) holder.querySelectorAll("button, select")[place]?.focus();
}

function rowsOf(rows, kinds) {
  return rows.map((cells) => el("tr", {}, cells.map((cell, place) => el("td", { class: kinds[place] }, cell))));
}

function kindsOf(headings, numbers) {
  return headings.map((heading, place) => (!heading ? "picture" : numbers.includes(place) ? "number" : null));
}

function table(headings, rows, numbers = [], attributes = {}) {
  const kinds = kindsOf(headings, numbers);
  const heads = headings.map((text, place) =>
    text ? el("th", { scope: "col", class: kinds[place] }, text) : el("td", {}),
  );
  const whole = el("table", attributes, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rowsOf(rows, kinds)));
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": attributes["aria-label"] ?? "table" }, whole);
}

// New rows for a table of the static page.
function refill(id, rows) {
  const old = find(id);
  const heads = [...old.tHead.rows[0].cells];
  const kinds = heads.map((cell) => (cell.tagName === "TD" ? "picture" : cell.className || null));
  old.tBodies[0].replaceChildren(...rowsOf(rows, kinds));
}

// A table that is made when it is opened: a page of 8,000 tokens must not make what nobody sees.
function folding(summary, make, attributes = {}) {
  const inside = el("div");
  const details = el("details", attributes, el("summary", {}, summary), inside);
  const open = () => details.open && inside.replaceChildren(make());
  details.addEventListener("toggle", open);
  details.redraw = open;
  return details;
}

// Rows in hundreds: the rest comes when asked for.
function longTable(headings, rows, numbers, attributes = {}) {
  const SOME = 200;
  const holder = table(headings, rows.slice(0, SOME), numbers, attributes);
  let shown = SOME;
  if (rows.length <= SOME) return holder;
  const more = button(`Show all ${counted(rows.length, "row")}`, () => {
    const body = holder.querySelector("tbody");
    body.append(...rowsOf(rows.slice(shown), kindsOf(headings, numbers)));
    shown = rows.length;
    more.remove();
  });
  return el("div", {}, holder, more);
}
