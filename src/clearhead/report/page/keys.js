// ---- keys: the strip without a mouse ---------------------------------------------------------

function stripKey(page, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last" };
  const step = steps[event.key];
  if (step !== undefined) {
    event.preventDefault();
    if (event.shiftKey) moveCursor(page, step);
    else moveToken(page, step);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    const option = cursorElement();
    if (option) actOn(page, option, event.shiftKey);
  } else if (event.key === "s" || event.key === "S") {
    const position = page.view.hovered ?? positionOf(cursorElement());
    if (position !== null) page.chooseSource(position);
  }
}

function cursorElement() {
  return find(find("strip").getAttribute("aria-activedescendant"));
}

// Another token to look from: the next that has a row, or the nearest such in the next line.
function moveToken(page, step) {
  const { rows, rowAt } = page.reading;
  if (typeof step === "number") return page.chooseToken(rows[Math.min(rows.length - 1, Math.max(0, page.choice.row + step))]);
  if (step === "first") return page.chooseToken(rows[0]);
  if (step === "last") return page.chooseToken(rows[rows.length - 1]);
  const here = find(`t-${page.choice.token}`);
  const options = [...find("strip").querySelectorAll(".t")].filter((option) => rowAt.has(positionOf(option)));
  const other = here && nearestInLine(options, here, step);
  return other && page.chooseToken(positionOf(other));
}

// The reading mark: on a token it makes it the source; on a fold it waits for Enter.
function moveCursor(page, step) {
  const options = [...find("strip").querySelectorAll("[role=option]")];
  const here = cursorElement();
  const place = options.indexOf(here);
  const last = options.length - 1;
  const goals = { first: 0, last, up: null, down: null };
  const goal = typeof step === "number" ? Math.min(last, Math.max(0, place + step)) : goals[step];
  const option = goal === null ? nearestInLine(options, here, step) : options[goal];
  if (!option) return;
  const position = positionOf(option);
  if (position !== null && page.reading.reachable(position, page.choice.token)) return page.chooseSource(position);
  setCursor(page, option.id);
  if (position !== null) showReadout(page, readoutOf(page, position));
  else showReadout(page, `${option.textContent} Enter opens or closes it.`);
}

function setCursor(page, id) {
  page.view.cursor = id;
  find("strip").setAttribute("aria-activedescendant", id);
  markCursor(page);
  find(id)?.scrollIntoView({ block: "nearest" });
}

function nearestInLine(options, here, way) {
  const sign = way === "down" ? 1 : -1;
  const from = here.getBoundingClientRect();
  const middle = (from.left + from.right) / 2;
  let [best, least] = [null, Infinity];
  for (const option of options) {
    const box = option.getBoundingClientRect();
    const away = sign * (box.top - from.top);
    if (away < from.height / 2) continue;
    const cost = away * 10 + Math.abs((box.left + box.right) / 2 - middle);
    if (cost < least) [best, least] = [option, cost];
  }
  return best;
}
