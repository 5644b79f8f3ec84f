// ---- sentences: what the terminal says of its token, said of any token ------------------------

function framedName(reading, position) {
  return `⟦${reading.word(position).name}⟧`;
}

function framedLabel(reading, position, token) {
  const { label } = reading.word(position);
  return position === token ? `⟦${label}⟧` : label;
}

function drewFrom(reading, choice) {
  return `Where ${framedName(reading, choice.token)} drew from, by ${choice.by}`;
}

// A share as text: a number, or the bound under which it lies.
function shareText(reading, choice, position) {
  const share = reading.shares(choice.row, choice.by)[position];
  return Number.isNaN(share) ? underText(reading.below(choice.row)) : percent(share);
}

function underText(bound) {
  return bound > 0 ? `at most ${percentAtMost(bound)}` : "0.0%";
}

function strongestFact(reading, choice) {
  const [source] = reading.ranked(choice.row, choice.by);
  if (source === undefined) return `${framedName(reading, choice.token)} drew from nothing`;
  const itself = source === choice.token;
  const name = itself ? "itself" : `${reading.word(source).name} (token ${source})`;
  const measured = choice.by === "contribution" ? "incoming contribution" : "attention";
  const drew = `${framedName(reading, choice.token)} drew most from ${name}`;
  return `${drew}: ${shareText(reading, choice, source)} of its ${measured}`;
}

function firstTokenFact(reading, choice) {
  const ofTheLook = choice.token === reading.look.strip.target;
  const weight = ofTheLook ? reading.look.first_token.attention : reading.first_token.data[choice.row];
  const brings = reading.measures.includes("contribution")
    ? `; from there comes ${shareText(reading, { ...choice, by: "contribution" }, 0)} of the contribution`
    : "";
  return `On the first token, ${reading.word(0).name}, rests ${percent(weight)} of its attention${brings}`;
}

function facts(reading, choice) {
  const told = [strongestFact(reading, choice), firstTokenFact(reading, choice)];
  const [likeliest] = reading.look.next_tokens.likeliest;
  if (likeliest) {
    told.push(`Likeliest next token, after token ${reading.look.next_tokens.after}: ${reading.shown.likeliest[0]}, ${percent(likeliest.probability)}`);
  }
  return told;
}

function whichToken(reading, choice) {
  return `Token ${choice.token} of ${reading.tokens.length}, counted from 0. ${reading.shown.layers}`;
}

function foldedText(reading, choice, { start, stop }) {
  const count = stop - start;
  if (reading.causal && start > choice.token) return `… ${count} later tokens …`;
  const { share, largest, truncated } = reading.together(choice.row, choice.by, start, stop);
  const summed = `${truncated ? "at least " : ""}${percent(share)} together`;
  return `… ${count} tokens, ${summed}, none above ${percentAtMost(largest)} …`;
}

function passageText(reading, choice, place, { start, stop }) {
  const { share, truncated } = reading.together(choice.row, choice.by, start, stop);
  const said = `${truncated ? "at least " : ""}${percent(share)}`;
  return `${reading.segmentName(place)} · ${counted(stop - start, "token")} · ${said} of ${framedName(reading, choice.token)}'s`;
}
