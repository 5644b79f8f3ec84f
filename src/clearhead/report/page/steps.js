// ---- steps: one head, one query, one key, from products to what reaches the output ----------------

// A word of the vocabulary that explains itself.
function wordNote(reading, name, size) {
  const entry = reading.quantities.find((quantity) => quantity.name === name);
  if (!entry) return null;
  const title = [entry.symbol ? el("b", {}, `${entry.symbol} `) : null, entry.name, " ", el("span", { class: "shape" }, entry.shape)];
  const also = entry.also_called ? ` Also called: ${entry.also_called}.` : "";
  const told = `${entry.meaning} Made by ${entry.producer}.${also}${size ? ` Here: ${size}.` : ""}`;
  return el("details", { class: "word" }, el("summary", {}, title), el("p", {}, told));
}

function figureOf({ title, drawing, told, words, rows, headings, pooled }) {
  const note = pooled > 1 ? [" ", mark("pooled"), ` a bar is the largest of ${pooled}`] : null;
  const numbers = note ? [note, "; the numbers are ", mark("exact")] : [" ", mark("exact")];
  return el(
    "figure",
    { class: "step" },
    el("h3", {}, title),
    picture(title, drawing),
    el("figcaption", {}, el("p", {}, told, numbers), words),
    folding("As a table", () => longTable(headings, rows(), headings.map((_, place) => place), { "aria-label": title })),
  );
}

function productsStep(page, step, source) {
  const products = step.products(source);
  const { sum } = step.scores(source);
  const key = step.key(source);
  return figureOf({
    title: "1 · Q meets K",
    drawing: waterfall(products),
    told: `${products.length} products of query and key, each on top of the last, add up to ${plain(sum)}.`,
    words: [wordNote(page.reading, "query"), wordNote(page.reading, "key")],
    headings: ["dimension", "q", "k", "q · k"],
    rows: () => [...products].map((product, place) => [String(place), plain(step.query[place]), plain(key[place]), plain(product)]),
  });
}

function scoreSteps(step, source) {
  const { raw, capped, added, seen, score } = step.scores(source);
  return [
    ["scaled", raw, "rest"],
    step.entry.softcap === null ? null : ["soft-capped", capped, "rest"],
    added === null ? null : ["bias", added, "rest"],
    seen ? null : ["mask", -Infinity, "rest"],
    ["S", score, "chosen-bar"],
    ["L", step.level, "total"],
  ].filter(Boolean);
}

function scoreStep(page, step, source) {
  const { scale, softcap, sink } = step.entry;
  const { weight } = step.scores(source);
  const named = scoreSteps(step, source);
  const told = [`× ${plain(scale)}`, softcap === null ? null : `soft-capped at ${plain(softcap)}`].filter(Boolean);
  const sunk = sink === null ? "" : ` A sink of ${plain(sink)} takes part in L.`;
  return figureOf({
    title: "2 · Score",
    drawing: ladder(named),
    told: `The sum ${told.join(", ")}. exp(S − L) = ${plain(weight)} is the weight.${sunk}`,
    words: [wordNote(page.reading, "raw_scores"), wordNote(page.reading, "scores"), wordNote(page.reading, "logsumexp")],
    headings: ["step", "value"],
    rows: () => named.map(([name, value]) => [name, plain(value)]),
  });
}

function rowStep(page, step, source) {
  const { reading } = page;
  const whole = Float64Array.from(reading.tokens, (_, at) => (step.holds(at) ? step.weight(at) : 0));
  const { children, pooled } = barsOf(whole, { chosen: source });
  const order = [...whole.keys()].filter((at) => whole[at] > 0);
  order.sort((one, other) => whole[other] - whole[one]);
  const rank = order.indexOf(source) + 1;
  const some = step.weights.length < whole.length ? ` ${counted(step.weights.length, "key")} of ${whole.length} are in this page.` : "";
  return figureOf({
    title: "3 · Weights",
    drawing: children,
    pooled,
    told: `${fixed(whole[source], 3)} rests on ${reading.word(source).name}${rank ? `, rank ${rank} of ${order.length}` : ""}.${some}`,
    words: [wordNote(reading, "weights")],
    headings: ["position", "token", "weight"],
    rows: () => order.map((at) => [String(at), reading.word(at).label, fixed(whole[at], 4)]),
  });
}

function norm(vector) {
  return Math.hypot(...vector);
}

function contextStep(page, step, source) {
  const part = step.part(source);
  return figureOf({
    title: "4 · Context",
    drawing: partOf(step.context, part),
    told: `${plain(step.weight(source))} × this source's value: length ${plain(norm(part))} within a context of length ${plain(norm(step.context))}.`,
    words: [wordNote(page.reading, "value"), wordNote(page.reading, "context")],
    headings: ["dimension", "context", "this source's part"],
    rows: () => [...step.context].map((value, place) => [String(place), plain(value), plain(part[place])]),
  });
}

function outputStep(page, step, source) {
  const output = step.outputPart(source);
  const length = step.length(source);
  const words = [wordNote(page.reading, "head_outputs"), wordNote(page.reading, "output")];
  const told = length === null ? "Its length needs W_O, and this model's W_O is not known." : `Through W_O it has the length ${plain(length)}: the contribution.`;
  if (output === null) {
    const why = " Its numbers are not in this page: this head's W_O was left out.";
    return el("figure", { class: "step" }, el("h3", {}, "5 · Output"), el("figcaption", {}, el("p", {}, told, length === null ? null : [" ", mark("exact")], why), words));
  }
  const { children, pooled } = barsOf(output);
  return figureOf({
    title: "5 · Output",
    drawing: children,
    pooled,
    told,
    words,
    headings: ["dimension", "part of O"],
    rows: () => [...output].map((value, place) => [String(place), plain(value)]),
  });
}

// A head without its own values says so, and names those that have them.
function withoutSteps(page) {
  const { reading, choice } = page;
  const others = [...reading.stepAt.keys()];
  const order = others.sort((one, other) => reading.headShare(choice.row, choice.by, other) - reading.headShare(choice.row, choice.by, one));
  const buttons = order.slice(0, 12).map((head) => button(capital(reading.headName(head)), () => page.chooseHead(head)));
  const told = `This page does not hold the vectors of ${reading.headName(choice.head)}, only its map and its strongest sources. `;
  return [el("p", {}, told, others.length > 0 ? "It holds those of:" : "It holds those of no head."), el("div", { class: "controls" }, buttons)];
}

function stepsDrawn(section, content) {
  section.replaceChildren(...content);
  section.setAttribute("aria-busy", "false");
}

async function drawSteps(page) {
  const { reading, choice } = page;
  const section = find("steps");
  section.hidden = false;
  section.setAttribute("aria-busy", "true");
  const itself = choice.source === choice.token;
  const read = `${framedName(reading, choice.token)} reads ${itself ? "itself" : reading.word(choice.source).name}`;
  const heading = el("h2", { id: "steps-title" }, "One head, step by step");
  const which = `${capital(reading.headName(choice.head))}: ${read} (token ${choice.token} → token ${choice.source}).`;
  const how = " Choose another head above, or another source: Shift+click in the text, or Shift+arrows.";
  const why = page.whyThisLink();
  const intro = el("p", { id: "steps-which" }, el("b", {}, which), el("span", { class: "quiet" }, why ? ` This is ${why}.` : "", how));
  section.setAttribute("aria-labelledby", "steps-title");
  if (!reading.stepAt.has(choice.head)) return stepsDrawn(section, [heading, intro, ...withoutSteps(page)]);
  const { head, row, source } = choice;
  const held = await reading.held(head);
  if (head !== choice.head || row !== choice.row || source !== choice.source) return null; // chosen anew meanwhile
  const step = new Step(reading, held, row);
  if (!step.holds(choice.source)) {
    const told = `The key of ${reading.word(choice.source).name} (token ${choice.source}) is not in this page: little is drawn from it.`;
    return stepsDrawn(section, [heading, intro, el("p", {}, told)]);
  }
  const makers = [productsStep, scoreStep, rowStep, contextStep, outputStep];
  const figures = makers.map((make) => make(page, step, choice.source));
  const kept = el("p", { class: "quiet" }, "Computed in this page, in double precision, from the kept Q, K, V and L.");
  return stepsDrawn(section, [heading, intro, el("div", { class: "steps" }, figures), kept]);
}
