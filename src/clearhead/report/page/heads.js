// ---- heads: every head as a small map of its own, framed by its share ---------------------------

function weightScale(page) {
  const { view } = page;
  if (view.weightFit !== null) return view.weightFit;
  const edges = page.reading.look.strip.scale.map((band) => band.at_least);
  return absoluteScale(view.pooling === "sum" ? edges.map((edge) => edge * cellSize(page).rows) : edges);
}

// The largest number of rows and of columns that one cell stands for.
function cellSize(page) {
  const { row_edges: rows, column_edges: columns } = page.reading.maps;
  const widest = (edges) => Math.max(...edges.slice(1).map((edge, place) => edge - edges[place]));
  return { rows: widest(rows), columns: widest(columns) };
}

function poolingSaid(page) {
  const { rows, columns } = cellSize(page);
  if (rows === 1 && columns === 1) return [mark("exact"), " each cell is one weight"];
  const shown = page.view.pooling === "max" ? "the largest weight in it" : "the sum of the weights in it";
  return [mark("pooled"), ` each cell stands for up to ${rows} × ${columns} weights and shows ${shown}`];
}

function mapOf(page, head) {
  return rowOf(page.reading.maps[page.view.pooling], head);
}

// The shades of the style sheet, so that canvas and text cannot disagree.
function palette() {
  const style = getComputedStyle(document.documentElement);
  return Array.from({ length: 9 }, (_, level) => {
    const hex = style.getPropertyValue(`--l${level}`).trim().slice(1);
    return [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  });
}

function paintMap(canvas, values, { shape, scale, colours }) {
  const [rows, columns] = shape;
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let place = 0; place < rows * columns; place += 1) {
    image.data.set([...colours[levelOf(scale, values[place])], 255], place * 4);
  }
  context.putImageData(image, 0, 0);
}

function headOrder(page) {
  const { reading, choice, view } = page;
  const all = [...reading.heads.keys()];
  if (view.order === "layer") return all;
  const shares = rowOf(reading.head_share[choice.by], choice.row);
  return all.sort((one, other) => shares[other] - shares[one] || one - other);
}

function headSaid(page, head) {
  const { reading, choice } = page;
  const kinds = reading.kindsOf(head);
  const share = percent(reading.headShare(choice.row, choice.by, head));
  const { position, weight } = reading.strongestWeight(choice.row, head);
  const strongest = `strongest weight ${fixed(weight, 3)} on ${reading.word(position).name} (token ${position})`;
  return `${reading.headName(head)}: ${share} of the ${choice.by}${kinds ? `; ${kinds}` : ""}; ${strongest}`;
}

// Only the grid scrolls: the page stays where its reader left it.
function bringIntoGrid(grid, cell) {
  const [box, inside] = [grid.getBoundingClientRect(), cell.getBoundingClientRect()];
  if (inside.top < box.top || inside.bottom > box.bottom) grid.scrollTop += inside.top - box.top - box.height / 2;
  if (inside.left < box.left || inside.right > box.right) grid.scrollLeft += inside.left - box.left - box.width / 2;
}

// Made once; what they say and where they stand changes.
function makeHeadCells(page) {
  return page.reading.heads.map((entry, head) => {
    const letters = entry.kinds.map(({ name }) => el("span", { class: `kind kind-${name[0]}` }, name[0].toUpperCase()));
    const kind = el("span", { class: "kinds", "aria-hidden": "true" }, letters);
    const label = el("span", { class: "head-name", "aria-hidden": "true" }, `${entry.layer}·${entry.head}`);
    const names = [`layer ${entry.layer}, head ${entry.head}`, ...entry.kinds.map(({ name }) => name)];
    const said = el("span", { class: "unseen" }, `${names.join(", ")}, `);
    const figure = el("span", { class: "head-share" });
    return el("span", { id: `h-${head}`, role: "option" }, el("canvas", { "aria-hidden": "true" }), kind, label, said, figure);
  });
}

function updateHeadCell(page, head) {
  const { reading, choice } = page;
  const share = reading.headShare(choice.row, choice.by, head);
  const level = levelOf(absoluteScale(reading.look.strip.scale.map((band) => band.at_least)), share);
  const chosen = head === choice.head;
  const cell = page.cells[head];
  cell.className = `head f${level}${chosen ? " chosen" : ""}`;
  cell.setAttribute("aria-selected", chosen ? "true" : "false");
  cell.lastChild.textContent = percent(share);
  return cell;
}

// Across the top of the grid: what its lines and columns are.
function headNumbers({ reading }) {
  const numbers = [...new Set(reading.heads.map((entry) => entry.head))].sort((one, other) => one - other);
  const names = numbers.map((number) => el("span", { class: "head-number" }, String(number)));
  return el("span", { class: "line numbers", role: "presentation", "aria-hidden": "true" }, el("span", { class: "layer" }, "layer"), names);
}

function drawHeadGrid(page) {
  const { reading, view } = page;
  const layers = new Map();
  for (const head of headOrder(page)) {
    const key = view.order === "layer" ? reading.heads[head].layer : "all";
    layers.set(key, [...(layers.get(key) ?? []), updateHeadCell(page, head)]);
  }
  const lines = [...layers].map(([layer, cells]) => {
    const name = view.order === "layer" ? el("span", { class: "layer", "aria-hidden": "true" }, layer) : null;
    return el("span", { class: "line", role: "presentation" }, name, cells);
  });
  if (view.order === "layer") lines.unshift(headNumbers(page));
  const grid = find("head-grid");
  const { scrollTop, scrollLeft } = grid;
  grid.className = `head-grid by-${view.order}`;
  grid.replaceChildren(...lines);
  Object.assign(grid, { scrollTop, scrollLeft });
  bringIntoGrid(grid, page.cells[page.choice.head]);
  grid.setAttribute("aria-activedescendant", `h-${page.choice.head}`);
  paintHeads(page);
}

function paintHeads(page) {
  const { reading, view } = page;
  const scale = weightScale(page);
  const how = { shape: reading.maps.max.shape.slice(1), scale, colours: palette() };
  const painted = JSON.stringify([view.pooling, scale, how.colours]);
  if (painted === view.painted) return;
  view.painted = painted;
  page.cells.forEach((cell, head) => paintMap(cell.firstChild, mapOf(page, head), how));
  const said = { what: "Weight", bound: weightBound, noun: "cell", values: reading.maps[view.pooling].data };
  find("map-legend").replaceChildren(...legendOf(scale, said).flat(), " Frames and figures: the head's share ", mark("exact"), ", on the scale of the text. Known kinds, by their score: P previous token, I induction, F first token.");
}

function weightBound(weight) {
  const parts = 1 / weight;
  return parts > 1 && Number.isInteger(parts) ? `1/${parts}` : plain(weight);
}

function drawHeadControls(page) {
  const { view } = page;
  const { rows, columns } = cellSize(page);
  const exact = rows === 1 && columns === 1;
  const why = exact ? "nothing is pooled here: each cell is one weight" : null;
  const controls = [
    segmented("Order", [["layer", "by layer"], ["share", "by share"]], view.order, (order) => page.changeView({ order })),
    segmented("Pooling", [["max", "maximum"], ["sum", "sum", why]], view.pooling, (pooling) => page.changePooling(pooling)),
    button(view.weightFit === null ? "Fit scale" : "Absolute scale", () => page.fitWeights(), { id: "fit-weights" }),
    el("span", { class: "quiet" }, poolingSaid(page)),
  ];
  redrawn(find("head-controls"), controls);
}

function allHeads(page) {
  const { reading, choice } = page;
  const rows = headOrder(page).map((head) => {
    const strongest = reading.strongestWeight(choice.row, head);
    const shareBy = (by) => (reading.measures.includes(by) ? percent(reading.headShare(choice.row, by, head)) : "–");
    return [
      String(reading.heads[head].layer),
      String(reading.heads[head].head),
      shareBy("contribution"),
      shareBy("attention"),
      fixed(strongest.weight, 3),
      `${framedLabel(reading, strongest.position, choice.token)} (${strongest.position})`,
      reading.kindsOf(head) || "–",
    ];
  });
  const headings = ["layer", "head", "contribution", "attention", "strongest weight", "on", "kind"];
  return longTable(headings, rows, [0, 1, 2, 3, 4], { "aria-label": "every head" });
}

// ---- what the grid does when it is touched

function headKey(page, event) {
  const order = headOrder(page);
  const place = order.indexOf(page.choice.head);
  const cells = order.map((head) => find(`h-${head}`));
  const steps = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: order.length - 1 };
  const ways = { ArrowUp: "up", ArrowDown: "down" };
  if (!(event.key in steps) && !(event.key in ways)) return;
  event.preventDefault();
  const next = event.key in ways ? nearestInLine(cells, cells[place], ways[event.key]) : cells[steps[event.key]];
  if (next) page.chooseHead(Number(next.id.slice(2)));
}

function listenToHeads(page) {
  const grid = find("head-grid");
  const headOf = (target) => {
    const cell = target.closest(".head");
    return cell ? Number(cell.id.slice(2)) : null;
  };
  grid.addEventListener("click", (event) => {
    const head = headOf(event.target);
    if (head !== null) page.chooseHead(head);
  });
  grid.addEventListener("mouseover", (event) => {
    const head = headOf(event.target);
    if (head !== null) find("head-readout").textContent = headSaid(page, head);
  });
  grid.addEventListener("mouseleave", () => restHeadReadout(page));
  grid.addEventListener("keydown", (event) => headKey(page, event));
}

function restHeadReadout(page) {
  find("head-readout").textContent = headSaid(page, page.choice.head);
}
