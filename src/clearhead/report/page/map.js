// ---- map: the chosen head's own map, large; a cell lights its query and its key in the text ------

// Where an index of a row or a column falls: the cell that holds it.
function cellOf(edges, index) {
  let cell = 0;
  while (cell + 2 < edges.length && edges[cell + 1] <= index) cell += 1;
  return cell;
}

function chosenCell(page) {
  const { row_edges: rows, column_edges: columns } = page.reading.maps;
  return [cellOf(rows, page.choice.row), cellOf(columns, page.choice.source)];
}

function drawMap(page) {
  const { reading, choice, view } = page;
  const shape = reading.maps.max.shape.slice(1);
  const values = mapOf(page, choice.head);
  const scale = weightScale(page);
  paintMap(find("map").querySelector("canvas"), values, { shape, scale, colours: palette() });
  view.cell = chosenCell(page);
  drawMapMarks(page, values, scale, shape);
  find("map").setAttribute("aria-label", `Map of ${reading.headName(choice.head)}: arrows move, Enter chooses`);
  find("map-title").textContent = `${capital(reading.headName(choice.head))}`;
  restHeadReadout(page);
  sayCell(page, view.cell);
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

// The chosen cell, the cell under the mouse, and where a fitted scale clips.
function drawMapMarks(page, values, scale, [rows, columns]) {
  const overlay = find("map").querySelector("svg");
  overlay.setAttribute("viewBox", `0 0 ${columns} ${rows}`);
  const clips = [];
  for (let place = 0; place < values.length; place += 1) {
    const clip = clipOf(scale, values[place]);
    if (!clip) continue;
    const [x, y] = [(place % columns) + 0.5, Math.floor(place / columns) + 0.5];
    const d = clip === "above" ? `M${x - 0.2} ${y + 0.15}h.4L${x} ${y - 0.2}z` : `M${x - 0.2} ${y - 0.15}h.4L${x} ${y + 0.2}z`;
    clips.push(d);
  }
  const [row, column] = chosenCell(page);
  overlay.replaceChildren(
    svg("path", { class: "clips", d: clips.join("") }),
    svg("path", { class: "cross", d: `M0 ${row + 0.5}H${columns}M${column + 0.5} 0V${rows}` }),
    svg("rect", { class: "chosen-cell", x: column, y: row, width: 1, height: 1 }),
    svg("rect", { class: "cell-cursor", x: column, y: row, width: 1, height: 1 }),
  );
}

// The positions a cell stands for: queries as positions of rows, keys as positions.
function cellHolds(page, [row, column]) {
  const { maps, rows } = page.reading;
  const queries = rows.slice(maps.row_edges[row], maps.row_edges[row + 1]);
  const keys = { start: maps.column_edges[column], stop: maps.column_edges[column + 1] };
  return { queries, keys };
}

function named(reading, first, last) {
  const one = (position) => `${reading.word(position).name} (token ${position})`;
  return first === last ? one(first) : `tokens ${first}–${last}, ${reading.word(first).name} … ${reading.word(last).name}`;
}

function weightsNamed(view) {
  return view.pooling === "max" ? "largest weight" : "sum of weights";
}

const MOST_CELLS = 300;

// The large map as a table: the cells that are not empty, strongest first.
function allCells(page) {
  const { reading, choice, view } = page;
  const values = mapOf(page, choice.head);
  const columns = reading.maps.max.shape[2];
  const order = [...values.keys()].filter((place) => values[place] > 0);
  order.sort((one, other) => values[other] - values[one] || one - other);
  const size = cellSize(page);
  const exact = size.rows === 1 && size.columns === 1;
  const rows = order.slice(0, MOST_CELLS).map((place) => {
    const { queries, keys } = cellHolds(page, [Math.floor(place / columns), place % columns]);
    const query = named(reading, queries[0], queries[queries.length - 1]);
    return [query, named(reading, keys.start, keys.stop - 1), fixed(values[place], 3)];
  });
  const more = order.length - rows.length;
  const told = more > 0 ? `The strongest ${MOST_CELLS} cells; ${more.toLocaleString("en-US")} more are above 0. ` : "Every cell above 0. ";
  const headings = ["query", "key", exact ? "weight" : weightsNamed(view)];
  const whole = longTable(headings, rows, [2], { "aria-label": "every cell" });
  return el("div", {}, el("p", { class: "quiet" }, told, mark(exact ? "exact" : "pooled")), whole);
}

function sayCell(page, cell) {
  const { reading, choice, view } = page;
  const { queries, keys } = cellHolds(page, cell);
  const value = mapOf(page, choice.head)[cell[0] * reading.maps.max.shape[2] + cell[1]];
  const exact = queries.length === 1 && keys.stop - keys.start === 1;
  const what = exact ? "weight" : weightsNamed(view);
  const query = named(reading, queries[0], queries[queries.length - 1]);
  const key = named(reading, keys.start, keys.stop - 1);
  const told = [`${query} reading ${key}: ${what} `, el("span", { class: "figure" }, fixed(value, 3)), " ", mark(exact ? "exact" : "pooled")];
  find("cell-readout").replaceChildren(...told);
}

function lightCell(page, cell) {
  for (const lit of document.querySelectorAll(".lit-query, .lit-key")) lit.classList.remove("lit-query", "lit-key");
  if (cell === null) return;
  const { queries, keys } = cellHolds(page, cell);
  for (const position of queries) find(`t-${position}`)?.classList.add("lit-query");
  for (let position = keys.start; position < keys.stop; position += 1) find(`t-${position}`)?.classList.add("lit-key");
  const cursor = find("map").querySelector(".cell-cursor");
  cursor.setAttribute("x", cell[1]);
  cursor.setAttribute("y", cell[0]);
  sayCell(page, cell);
}

// In a pooled cell, the row whose strongest weight lies in it, if there is one.
function chooseCell(page, cell) {
  const { reading, choice } = page;
  const { queries, keys } = cellHolds(page, cell);
  let [token, source, best] = [queries[0], keys.start, -1];
  for (const query of queries) {
    const { position, weight } = reading.strongestWeight(reading.rowAt.get(query), choice.head);
    if (position < keys.start || position >= keys.stop || weight <= best) continue;
    [token, source, best] = [query, position, weight];
  }
  page.choosePair(token, source);
}

function cellUnder(page, event) {
  const box = find("map").getBoundingClientRect();
  const [, rows, columns] = page.reading.maps.max.shape;
  const at = (offset, size, count) => Math.min(count - 1, Math.max(0, Math.floor((offset / size) * count)));
  return [at(event.clientY - box.top, box.height, rows), at(event.clientX - box.left, box.width, columns)];
}

function mapKey(page, event) {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const [, rows, columns] = page.reading.maps.max.shape;
  if (event.key in moves) {
    event.preventDefault();
    const [down, right] = moves[event.key];
    const keep = (value, count) => Math.min(count - 1, Math.max(0, value));
    page.view.cell = [keep(page.view.cell[0] + down, rows), keep(page.view.cell[1] + right, columns)];
    lightCell(page, page.view.cell);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    chooseCell(page, page.view.cell);
  }
}

function listenToMap(page) {
  const map = find("map");
  map.addEventListener("mousemove", (event) => lightCell(page, cellUnder(page, event)));
  map.addEventListener("mouseleave", () => {
    lightCell(page, null);
    drawMap(page);
  });
  map.addEventListener("click", (event) => chooseCell(page, cellUnder(page, event)));
  map.addEventListener("keydown", (event) => mapKey(page, event));
  map.addEventListener("blur", () => lightCell(page, null));
}

// The frame that heads.js and map.js fill: made once.
function headsFrame() {
  const overlay = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
  const map = el("div", { id: "map", class: "map", role: "application", tabindex: 0 }, el("canvas", { "aria-hidden": "true" }), overlay);
  const grid = el("div", { id: "head-grid", role: "listbox", tabindex: 0, "aria-label": "Heads: arrows choose one" });
  const side = el(
    "div",
    { class: "chosen-head" },
    el("h4", { id: "map-title" }),
    el("p", { id: "head-readout", role: "status" }),
    el("div", { class: "axes" }, el("span", { class: "axis-y" }, "query ↓"), el("span", { class: "axis-x" }, "key →"), map),
    el("p", { id: "cell-readout", class: "readout", role: "status" }),
    el("div", { id: "cell-table" }),
  );
  return [
    el("h3", {}, "Every head, as a map of its weights"),
    el("div", { id: "head-controls", class: "controls" }),
    el("p", { id: "map-legend", class: "legend" }),
    el("div", { class: "heads" }, grid, side),
    el("div", { id: "head-table" }),
  ];
}
