// ---- documents: the answer's shares by passage and by depth, on average or for one token ----------

function sharesOfAnswer(page) {
  const { documents } = page.reading.look;
  const one = documents.each.find((entry) => entry.position === page.choice.token);
  const entry = page.view.whose === "token" && one ? one : documents.average;
  return entry[page.choice.by];
}

const TEMPLATE = "between them (the template)";

function answerFact(reading, choice) {
  const { documents } = reading.look;
  const { segments, elsewhere } = documents.average[choice.by];
  const place = segments.indexOf(Math.max(...segments));
  const [share, name] = place < 0 ? [elsewhere, TEMPLATE] : [segments[place], reading.segmentName(place)];
  const measured = choice.by === "contribution" ? "incoming contribution" : "attention";
  const over = `on average over ${counted(documents.answer.stop - documents.answer.start, "token")}`;
  const among = place < 0 ? "The answer" : "Of the passages, the answer";
  return `${among} drew most from ${name}: ${percent(share)} of its ${measured}, ${over}`;
}

function passageRows(reading, shares) {
  const named = reading.look.documents.segments.map((segment, place) => [
    shares.segments[place],
    reading.segmentName(place),
    (segment.stop - segment.start).toLocaleString("en-US"),
  ]);
  const all = [...named, [shares.elsewhere, TEMPLATE, ""], [shares.answer, "the answer itself, so far", ""]];
  return all.map(([share, name, tokens]) => [percent(share), name, tokens, bar(share)]);
}

function depthRows(edges, shares) {
  const range = (place) => [edges[place], edges[place + 1] - 1].map((at) => at.toLocaleString("en-US")).join("–");
  return shares.map((share, place) => [percent(share), range(place), bar(share)]);
}

function drawDocuments(page) {
  const { reading, choice, view } = page;
  const { documents } = reading.look;
  if (!documents) return;
  const shares = sharesOfAnswer(page);
  refill("by-passage", passageRows(reading, shares));
  refill("by-depth", depthRows(documents.depth_edges, shares.depth));
  const isAnswer = documents.each.some((entry) => entry.position === choice.token);
  const count = counted(documents.answer.stop - documents.answer.start, "token");
  const ofOne = view.whose === "token" && isAnswer;
  find("whose").textContent = ofOne
    ? `The token ${framedName(reading, choice.token)} (token ${choice.token}) alone, by ${choice.by}.`
    : `The average over the answer's ${count}, by ${choice.by}.`;
  const why = isAnswer ? null : "the chosen token is no token of the answer";
  const options = [["average", "average of the answer"], ["token", `the token ${framedName(reading, choice.token)}`, why]];
  redrawn(find("documents-controls"), [
    segmented("Shares of", options, ofOne ? "token" : "average", (whose) => page.changeView({ whose })),
  ]);
  page.eachTable.redraw();
}

const ROW_OF_ANSWER =
  "A row is what the token read once it stood there, on the way to the next one; the row before it is the one that wrote it. ";

function eachToken(page) {
  const { reading, choice } = page;
  const { documents } = reading.look;
  const names = documents.segments.map((_, place) => reading.segmentName(place));
  const headings = ["token", "", ...names, "template", "answer"].map((name) => name || "at");
  const rows = documents.each.map((entry) => {
    const shares = entry[choice.by];
    const all = [...shares.segments, shares.elsewhere, shares.answer];
    const choose = () => page.changeView({ whose: "token" }, () => page.chooseToken(entry.position));
    const name = framedLabel(reading, entry.position, choice.token);
    const token = reading.rowAt.has(entry.position) ? button(name, choose, { class: "link" }) : name;
    return [token, String(entry.position), ...all.map(percent)];
  });
  const whole = longTable(headings, rows, headings.map((_, place) => place).slice(1), { "aria-label": "each token of the answer" });
  return el("div", {}, el("p", { class: "quiet" }, ROW_OF_ANSWER, mark("exact")), whole);
}

function listenToDocuments(page) {
  page.eachTable = folding("Each token of the answer", () => eachToken(page));
  find("each").append(page.eachTable);
}
