// ---- arrays: little-endian numbers, their bytes by planes, deflated, in base64 ---------------

const KINDS = { f32: Float32Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array };

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
  return bytes;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpacked(packed) {
  const planes = await inflated(bytesOf(packed.data));
  const Kind = KINDS[packed.type];
  const size = Kind.BYTES_PER_ELEMENT;
  const count = planes.length / size;
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < size; plane += 1) {
    for (let place = 0; place < count; place += 1) bytes[place * size + plane] = planes[plane * count + place];
  }
  return { shape: packed.shape, data: new Kind(bytes.buffer) };
}

function isPacked(value) {
  return typeof value.data === "string" && typeof value.type === "string" && Array.isArray(value.shape);
}

// What is unpacked when it is first asked for: one head's vectors, of hundreds.
const LATER = new Set(["look", "steps", "keys", "values", "masks"]);

// The same values with their packed arrays unpacked.
async function withArrays(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) {
    return value.some((entry) => typeof entry === "object") ? Promise.all(value.map(withArrays)) : value;
  }
  if (isPacked(value)) return unpacked(value);
  const entries = Object.entries(value).map(async ([name, inside]) => [
    name,
    LATER.has(name) ? inside : await withArrays(inside),
  ]);
  return Object.fromEntries(await Promise.all(entries));
}

// A row of an array: a view, no copy.
function rowOf(array, ...places) {
  const inner = array.shape.slice(places.length).reduce((all, size) => all * size, 1);
  const start = places.reduce((all, place, axis) => all * array.shape[axis] + place, 0) * inner;
  return array.data.subarray(start, start + inner);
}
