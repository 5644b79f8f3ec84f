// ---- figures: numbers written as Python writes them, ties to even ----------------------------

function fixed(number, digits) {
  const doubled = number * 2 ** (digits + 1);
  const tie = Number.isInteger(doubled) && doubled % 2 !== 0; // exactly between two decimals
  if (!tie) return number.toFixed(digits);
  const below = Math.floor(number * 10 ** digits);
  return ((below % 2 === 0 ? below : below + 1) / 10 ** digits).toFixed(digits);
}

function percent(share) {
  return share > 0 && share < 0.0005 ? "<0.1%" : `${fixed(share * 100, 1)}%`;
}

function percentAtMost(share) {
  return `${fixed((Math.ceil(share * 1000) / 1000) * 100, 1)}%`;
}

function scaleBound(share) {
  return `${Number(fixed(share * 100, 2))}%`;
}

function lengthOf(number) {
  if (number === null || Number.isNaN(number)) return "–";
  if (number === 0) return "0.00";
  const [digits, power] = number.toExponential(2).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 3) return exponent === 2 ? `${fixed(number, 0)}.` : fixed(number, 2 - exponent);
  return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

// A number inside the arithmetic of one head: four significant digits, a true minus sign.
function plain(number) {
  if (number === -Infinity) return "−∞";
  if (number === 0) return "0";
  const size = Math.abs(number);
  const shown = size >= 0.001 && size < 10000 ? String(Number(size.toPrecision(4))) : size.toExponential(2);
  return number < 0 ? `−${shown}` : shown;
}

function counted(count, noun) {
  return `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
}
