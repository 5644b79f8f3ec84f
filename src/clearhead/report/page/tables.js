// ---- tables: head line, strongest sources and links of the chosen token ------------------------

const STRONGEST = 5;

function drawHeadLine(page) {
  const { reading, choice } = page;
  const { documents } = reading.look;
  const told = documents ? [answerFact(reading, choice), ...facts(reading, choice)] : facts(reading, choice);
  const [answer, ...others] = told;
  find("title").textContent = documents ? `Where the answer drew from, by ${choice.by}` : drewFrom(reading, choice);
  if (documents) find("drew-title").textContent = drewFrom(reading, choice);
  find("answer").textContent = `${answer}.`;
  find("facts").replaceChildren(...others.map((fact) => el("li", {}, `${fact}.`)));
  find("which").textContent = page.asked(choice) ?? whichToken(reading, choice);
  const notes = reading.shown.notes[choice.by];
  // The look's own note on first tokens speaks of the token it was made for.
  const elsewhere = choice.token !== reading.look.strip.target;
  const shown = notes.filter(({ subject }) => !elsewhere || subject !== "first token");
  find("notes").replaceChildren(...shown.map(({ text }) => el("li", {}, text)));
  const bounded = told.some((fact) => fact.includes(": at most ") || fact.includes("comes at most "));
  const bound = bounded ? [", what is at most a number ", mark("truncated")] : [];
  find("facts-mark").replaceChildren("Each number above is ", mark("exact"), ...bound);
}

function sourceButton(page, position) {
  const name = framedLabel(page.reading, position, page.choice.token);
  return button(name, () => page.chooseSource(position), { class: "link" });
}

function drawSources(page) {
  const { reading, choice } = page;
  const shares = reading.shares(choice.row, choice.by);
  const rows = reading.ranked(choice.row, choice.by).slice(0, STRONGEST).map((position) => [
    percent(shares[position]),
    sourceButton(page, position),
    String(position),
    bar(shares[position]),
  ]);
  refill("sources", rows);
}

function otherMeasure(page, row, by, position) {
  if (!page.reading.measures.includes(by)) return "–";
  return shareText(page.reading, { ...page.choice, row, by }, position);
}

function allSources(page) {
  const { reading, choice } = page;
  const ranked = reading.ranked(choice.row, choice.by);
  const rows = ranked.map((position, place) => {
    const head = reading.strongestHead(choice.row, choice.by, position);
    return [
      String(place + 1),
      framedLabel(reading, position, choice.token),
      String(position),
      otherMeasure(page, choice.row, "contribution", position),
      otherMeasure(page, choice.row, "attention", position),
      head === null ? "–" : reading.headName(head),
    ];
  });
  const headings = ["rank", "token", "position", "contribution", "attention", "most through"];
  return el("div", {}, longTable(headings, rows, [0, 2, 3, 4], { "aria-label": "every listed source" }), leftOut(page, ranked));
}

// How many positions no number is known of, and the bound that holds for them.
function leftOut(page, ranked) {
  const { reading, choice } = page;
  const unknown = reading.shares(choice.row, choice.by).filter((share) => Number.isNaN(share)).length;
  if (unknown === 0) return el("p", { class: "quiet" }, "All sources, every number ", mark("exact"));
  const bound = underText(reading.below(choice.row));
  const told = `${counted(ranked.length, "source")} listed, each number `;
  return el("p", { class: "quiet" }, told, mark("exact"), `; ${unknown} more have ${bound} each `, mark("truncated"));
}

function drawLinks(page) {
  const { reading, choice } = page;
  const rows = reading.linksOf(choice.row, choice.by).slice(0, page.linksShown).map((link) => [
    String(reading.heads[link.head].layer),
    String(reading.heads[link.head].head),
    button(framedLabel(reading, link.position, choice.token), () => page.chooseLink(link), { class: "link" }),
    String(link.position),
    fixed(link.weight, 3),
    lengthOf(link.length),
    percent(link.share),
  ]);
  refill("links", rows);
}

// ---- the controls above the text

function drawStripControls(page) {
  const { reading, choice, view } = page;
  const noOutput = "contributions need W_O, and this model's W_O is not known";
  const options = [
    ["contribution", "contribution", reading.measures.includes("contribution") ? null : noOutput],
    ["attention", "attention", null],
  ];
  const fitted = view.shareFit !== null;
  const controls = [
    segmented("Measure", options, choice.by, (by) => page.chooseMeasure(by)),
    button(fitted ? "Absolute scale" : "Fit scale", () => page.fitShares(), { id: "fit-shares" }),
    button("Next strong link", () => page.nextStrong(), { id: "next-strong", disabled: reading.strong.length === 0 }),
    el("span", { id: "strong-place", class: "quiet", role: "status" }, strongPlace(page)),
    el("span", { class: "quiet" }, "(strongest links of all rows, not on the first token or the token itself)"),
  ];
  redrawn(find("strip-controls"), controls);
}

function strongPlace(page) {
  const { reading, view } = page;
  if (view.strongAt < 0) return counted(reading.strong.length, "strong link");
  const link = reading.strong[view.strongAt];
  const names = `${reading.word(link.position).name} → ${reading.word(link.row).name}`;
  const share = `${percent(link.share)} of its ${reading.measures[0]}`;
  return `${view.strongAt + 1} of ${reading.strong.length}: ${names}, ${reading.headName(link.head)}, weight ${fixed(link.weight, 3)}, ${share}`;
}
