// ---- folding: which stretches of a long text stand open; the rule of folding.py ---------------

const OPEN_UP_TO = 160;
const REMARKABLE = 24;
const WORTH_SEEING = 2 ** -8;
const AROUND = 6;
const SHORTEST_FOLD = 16;

function keptOpen(shares, token) {
  const count = shares.length;
  const known = [...shares.keys()].filter((at) => shares[at] >= WORTH_SEEING);
  known.sort((one, other) => shares[other] - shares[one] || one - other);
  const kept = new Set([0]);
  for (const center of [token, ...known.slice(0, REMARKABLE)]) {
    const [first, last] = [Math.max(0, center - AROUND), Math.min(count - 1, center + AROUND)];
    for (let at = first; at <= last; at += 1) kept.add(at);
  }
  return kept;
}

function stretches(shares, token, opened = []) {
  const count = shares.length;
  if (count <= OPEN_UP_TO) return [{ start: 0, stop: count, folded: false }];
  const kept = keptOpen(shares, token);
  for (const [start, stop] of opened) for (let at = start; at < stop; at += 1) kept.add(at);
  const places = [...kept].sort((one, other) => one - other);
  const parts = [];
  let start = 0;
  places.forEach((here, place) => {
    const following = place + 1 < places.length ? places[place + 1] : count;
    if (following - here - 1 < SHORTEST_FOLD) return;
    parts.push({ start, stop: here + 1, folded: false }, { start: here + 1, stop: following, folded: true });
    start = following;
  });
  if (start < count) parts.push({ start, stop: count, folded: false });
  return parts;
}

// The stretches that fall into one run of the text; what a run's end makes too short to fold stands open.
function within(parts, start, stop) {
  return parts
    .map((part) => ({ ...part, start: Math.max(start, part.start), stop: Math.min(stop, part.stop) }))
    .filter((part) => part.start < part.stop)
    .map((part) => ({ ...part, folded: part.folded && part.stop - part.start >= SHORTEST_FOLD }));
}

// Whether anything of a run stands open by itself.
function standsOpen(parts, run) {
  return parts.some((part) => !part.folded && part.start < run.stop && run.start < part.stop);
}

// The text as passages and what stands between them.
function runs(count, segments) {
  const parts = [];
  let at = 0;
  segments.forEach((segment, place) => {
    if (segment.start > at) parts.push({ start: at, stop: segment.start, segment: null });
    parts.push({ start: segment.start, stop: segment.stop, segment: place });
    at = segment.stop;
  });
  if (at < count) parts.push({ start: at, stop: count, segment: null });
  return parts;
}
