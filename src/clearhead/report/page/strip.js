// ---- strip: the text as tokens; click and arrows choose, with Shift they choose the source ----

function shareScale(page) {
  return page.view.shareFit ?? absoluteScale(page.reading.look.strip.scale.map((band) => band.at_least));
}

function tokenElement(page, position, shares, scale) {
  const { reading, choice } = page;
  const token = reading.tokens[position];
  const share = shares[position];
  const clip = clipOf(scale, share);
  const names = ["t", `l${levelOf(scale, share)}`];
  if (position === choice.token) names.push("target");
  if (position === choice.source) names.push("source");
  if (!reading.reachable(position, choice.token)) names.push("later");
  if (token.special) names.push("special");
  if (clip) names.push(`clip-${clip}`);
  const shown = el(
    "span",
    {
      id: `t-${position}`,
      class: names.join(" "),
      role: "option",
      "aria-selected": position === choice.token ? "true" : "false",
    },
    reading.word(position).piece,
  );
  const after = token.text.endsWith("\n") ? el("br") : null;
  const wall = position === choice.token && reading.causal && position + 1 < reading.tokens.length;
  return [token.space_before ? " " : null, shown, wall ? el("span", { class: "wall", "aria-hidden": "true" }, "┊") : null, after];
}

function foldElement(page, part) {
  const attributes = { id: `f-${part.start}`, class: "fold", role: "option", "aria-selected": "false" };
  const shown = el("span", attributes, foldedText(page.reading, page.choice, part));
  shown.dataset.stop = part.stop;
  return [" ", shown, " "];
}

function runElements(page, parts, shares, scale) {
  return parts.map((part) => {
    if (part.folded) return foldElement(page, part);
    const positions = Array.from({ length: part.stop - part.start }, (_, at) => part.start + at);
    return positions.map((position) => tokenElement(page, position, shares, scale));
  });
}

function passageElement(page, run, open) {
  const { reading, choice } = page;
  const said = passageText(reading, choice, run.segment, run);
  const attributes = { id: `p-${run.segment}`, class: "passage", role: "option", "aria-selected": "false" };
  return el("span", attributes, `${open ? "▾" : "▸"} ${said}`);
}

// A source that was chosen stands open, with its neighbours.
function openStretches({ choice, view }, shares) {
  const parts = stretches(shares, choice.token, view.opened);
  const hidden = parts.some(({ start, stop, folded }) => folded && start <= choice.source && choice.source < stop);
  if (!hidden) return parts;
  view.opened.push([Math.max(0, choice.source - AROUND), Math.min(shares.length, choice.source + AROUND + 1)]);
  return stretches(shares, choice.token, view.opened);
}

function drawStrip(page) {
  const { reading, choice, view } = page;
  const shares = reading.shares(choice.row, choice.by);
  const scale = shareScale(page);
  const parts = openStretches(page, shares);
  const shown = runs(reading.tokens.length, reading.segments).map((run) => {
    const inside = within(parts, run.start, run.stop);
    const open = run.segment === null || (view.toggled.get(run.segment) ?? standsOpen(parts, run));
    const head = run.segment === null ? null : passageElement(page, run, open);
    return [head, open ? el("span", { class: run.segment === null ? "prose" : "prose inside", role: "presentation" }, runElements(page, inside, shares, scale)) : null];
  });
  const strip = find("strip");
  strip.replaceChildren(...shown.flat().filter(Boolean));
  strip.setAttribute("aria-activedescendant", find(view.cursor)?.id ?? `t-${choice.token}`);
  markCursor(page);
  drawLegend(page, shares, scale);
  drawStripNotes(page, parts);
}

function drawLegend(page, shares, scale) {
  const said = { what: "Share", bound: scaleBound, noun: "token", values: shares };
  find("legend").replaceChildren(...legendOf(scale, said).flat());
}

function drawStripNotes(page, parts) {
  const { reading, choice } = page;
  const notes = ["Click a token to look from it; Shift+click one (or press s) to make it the source, framed in blue.", "A source can also be chosen in the table of strongest sources."];
  if (reading.causal && choice.token + 1 < reading.tokens.length) {
    notes.push("What stands behind ┊ came later and cannot reach the chosen token.");
  }
  if (parts.some((part) => part.folded)) notes.push("… folds a stretch without a large share; click it to open it.");
  find("strip-notes").textContent = notes.join(" ");
}

// The option that the keyboard stands on.
function markCursor(page) {
  const strip = find("strip");
  strip.querySelector(".cursor")?.classList.remove("cursor");
  const id = strip.getAttribute("aria-activedescendant");
  if (id) find(id)?.classList.add("cursor");
}

// What the readout line says of one token.
function readoutOf(page, position, tried = false) {
  const { reading, choice } = page;
  const { label } = reading.word(position);
  const name = el("b", {}, position === choice.token ? `⟦${label}⟧` : label);
  const place = ` token ${position}: `;
  if (!reading.reachable(position, choice.token)) {
    return [name, place, `came later, so it cannot reach ${framedName(reading, choice.token)}.`, tried ? whyNotChosen(page, position) : null];
  }
  const share = reading.shares(choice.row, choice.by)[position];
  const measured = choice.by === "contribution" ? "of the incoming contribution" : "of the attention";
  const known = !Number.isNaN(share);
  const rank = known ? reading.rank(choice.row, choice.by, position) : undefined;
  const head = reading.strongestHead(choice.row, choice.by, position);
  return [
    name,
    place,
    el("span", { class: "figure" }, shareText(reading, choice, position)),
    ` ${measured} `,
    mark(known ? "exact" : "truncated"),
    rank === undefined ? null : `, rank ${rank}`,
    head === null || share === 0 ? null : `, most through ${reading.headName(head)}`,
    ".",
    tried ? whyNotChosen(page, position) : null,
  ];
}

function whyNotChosen(page, position) {
  const { rows } = page.reading;
  if (page.reading.rowAt.has(position)) return null;
  const [first, last] = [rows[0], rows[rows.length - 1]];
  const kept = rows.length === 1 ? `token ${first}` : `${rows.length} tokens, from ${first} to ${last}`;
  return ` It cannot be looked from: only the rows of ${kept} were kept.`;
}

function showReadout(page, content) {
  find("readout").replaceChildren(...[content].flat(2).filter(Boolean));
}

function restReadout(page) {
  showReadout(page, readoutOf(page, page.choice.source));
}

// ---- what the strip does when it is touched

function positionOf(element) {
  return element?.id?.startsWith("t-") ? Number(element.id.slice(2)) : null;
}

function actOn(page, element, asSource) {
  const position = positionOf(element);
  if (position !== null) return asSource ? page.chooseSource(position) : page.chooseToken(position);
  if (element.id.startsWith("f-")) {
    page.view.opened.push([Number(element.id.slice(2)), Number(element.dataset.stop)]);
    page.view.cursor = `t-${element.id.slice(2)}`;
  } else {
    const place = Number(element.id.slice(2));
    page.view.toggled.set(place, element.textContent.startsWith("▸"));
    page.view.cursor = element.id;
  }
  return drawStrip(page);
}

function listenToStrip(page) {
  const strip = find("strip");
  strip.setAttribute("role", "listbox");
  strip.setAttribute("aria-label", "The text, a token each: arrows choose the token looked from, with Shift its source");
  strip.setAttribute("aria-describedby", "strip-notes");
  strip.tabIndex = 0;
  strip.addEventListener("mousedown", (event) => event.shiftKey && event.preventDefault()); // no selection
  strip.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) actOn(page, option, event.shiftKey);
  });
  strip.addEventListener("mouseover", (event) => {
    const position = positionOf(event.target.closest("[role=option]"));
    page.view.hovered = position;
    if (position !== null) showReadout(page, readoutOf(page, position));
  });
  strip.addEventListener("mouseleave", () => {
    page.view.hovered = null;
    restReadout(page);
  });
  strip.addEventListener("keydown", (event) => stripKey(page, event));
}
