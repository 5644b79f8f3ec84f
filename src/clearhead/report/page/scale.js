// ---- scale: eight steps in log2, absolute; another only where the reader asked for a fit ------

function absoluteScale(edges) {
  return { edges, top: null };
}

// From the 5th to the 95th of a hundred of the values: what lies outside is clipped, and marked.
function fittedScale(values) {
  const known = [...values].filter((value) => value > 0).sort((one, other) => one - other);
  if (known.length === 0) return null;
  const at = (part) => known[Math.round(part * (known.length - 1))];
  const top = at(0.95);
  const bottom = Math.min(at(0.05), top / 2);
  return { edges: Array.from({ length: 8 }, (_, step) => bottom * (top / bottom) ** (step / 8)), top };
}

function levelOf(scale, value) {
  let level = 0;
  for (const edge of scale.edges) if (value >= edge) level += 1;
  return level;
}

function clipOf(scale, value) {
  if (scale.top === null || !(value > 0)) return null;
  if (value > scale.top) return "above";
  return value < scale.edges[0] ? "below" : null;
}

function clipsOf(scale, values) {
  const clips = { above: 0, below: 0 };
  for (const value of values) {
    const clip = clipOf(scale, value);
    if (clip) clips[clip] += 1;
  }
  return clips;
}

function legendOf(scale, { what, bound, noun, values }) {
  const shades = scale.edges.map((edge, step) => el("span", { class: `t l${step + 1}` }, bound(edge)));
  if (scale.top === null) return [`${what} at least `, shades, " each step doubles; unshaded is less."];
  const { above, below } = clipsOf(scale, values);
  return [
    el("b", {}, "Fitted scale: "),
    `${what} at least `,
    shades,
    ` Clipped: ▴ above ${bound(scale.top)}, ${counted(above, noun)};`,
    ` ▾ under ${bound(scale.edges[0])}, ${counted(below, noun)}.`,
    " Shades of another page do not compare.",
  ];
}
