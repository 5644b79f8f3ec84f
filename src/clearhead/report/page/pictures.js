// ---- pictures: bars of one step of one head --------------------------------------------------------

const WIDE = 180;
const HIGH = 110;

function picture(label, children) {
  return svg("svg", { class: "picture", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label }, children);
}

function span(values) {
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  return low === high ? [0, 1] : [low, high];
}

function placed([low, high]) {
  return (value) => HIGH - 6 - ((value - low) / (high - low)) * (HIGH - 12);
}

function block(x, width, from, to, name) {
  const y = Math.min(from, to);
  const height = Math.max(0.75, Math.abs(to - from));
  const size = { x: fixed(x, 2), y: fixed(y, 2), width: fixed(width, 2), height: fixed(height, 2) };
  return svg("rect", { ...size, class: name });
}

function zeroLine(y) {
  return svg("path", { class: "zero", d: `M0 ${fixed(y, 2)}H${WIDE}` });
}

// Each product on top of the one before; the last bar is what they add up to.
function waterfall(products) {
  const sums = [0];
  for (const product of products) sums.push(sums[sums.length - 1] + product);
  const at = placed(span(sums));
  const slot = WIDE / (products.length + 2);
  const bars = [...products].map((product, place) =>
    block(place * slot, slot * 0.8, at(sums[place]), at(sums[place + 1]), product < 0 ? "down" : "up"),
  );
  const total = block((products.length + 0.6) * slot, slot * 1.4, at(0), at(sums[sums.length - 1]), "total");
  return [zeroLine(at(0)), bars, total];
}

// Many numbers as bars; where they are more than the picture has room for, the largest of a few.
function barsOf(values, { chosen = null, most = 120 } = {}) {
  const size = Math.max(1, Math.ceil(values.length / most));
  const count = Math.ceil(values.length / size);
  const largest = (start) => [...values.slice(start, start + size)].reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0);
  const shown = Array.from({ length: count }, (_, place) => largest(place * size));
  const at = placed(span(shown));
  const slot = WIDE / count;
  const picked = chosen === null ? -1 : Math.floor(chosen / size);
  const bars = shown.map((value, place) =>
    value === 0 ? null : block(place * slot, Math.max(0.6, slot * 0.8), at(0), at(value), chosen === null || place === picked ? "chosen-bar" : "rest"),
  );
  const pin = picked < 0 ? null : svg("path", { class: "pin", d: `M${fixed((picked + 0.4) * slot, 2)} ${HIGH - 5}l3 5h-6z` });
  return { children: [zeroLine(at(0)), bars, pin], pooled: size };
}

// One vector, and the part of it that one source brought.
function partOf(whole, part) {
  const at = placed(span([...whole, ...part]));
  const slot = WIDE / whole.length;
  const bars = [...whole].map((value, place) => [
    block(place * slot, slot * 0.8, at(0), at(value), "rest"),
    block(place * slot + slot * 0.15, slot * 0.5, at(0), at(part[place]), "chosen-bar"),
  ]);
  return [zeroLine(at(0)), bars];
}

// A few named numbers on one axis.
function ladder(steps) {
  const finite = steps.map(([, value]) => value).filter(Number.isFinite);
  const [low, high] = span(finite);
  const across = (value) => 68 + ((value - low) / (high - low)) * 66;
  const slot = (HIGH - 6) / steps.length;
  const lines = steps.map(([name, value, kind], place) => {
    const y = 3 + place * slot;
    const [from, to] = [across(0), across(Number.isFinite(value) ? value : low)];
    const size = { x: fixed(Math.min(from, to), 2), width: fixed(Math.max(0.75, Math.abs(to - from)), 2) };
    return [
      svg("text", { x: 63, y: fixed(y + slot * 0.66, 2), "text-anchor": "end" }, name),
      svg("rect", { ...size, y: fixed(y + slot * 0.15, 2), height: fixed(slot * 0.7, 2), class: kind }),
      svg("text", { x: 180, y: fixed(y + slot * 0.66, 2), "text-anchor": "end", class: "value" }, plain(value)),
    ];
  });
  return [svg("path", { class: "zero", d: `M${fixed(across(0), 2)} 0V${HIGH}` }), lines];
}
