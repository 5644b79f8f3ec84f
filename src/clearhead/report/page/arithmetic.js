// ---- arithmetic: one head, one query, every kept key: the five steps, in double precision --------

class Step {
  constructor(reading, entry, row) {
    this.reading = reading;
    this.entry = entry;
    this.row = row;
    this.query = rowOf(entry.query, row);
    this.keys = entry.keys;
    this.values = entry.values;
    this.level = this.entry.level.data[row];
    this.context = rowOf(this.entry.context, row);
    this.weights = Float64Array.from(reading.keyAt.keys(), (source) => this.scores(source).weight);
  }

  holds(source) {
    return this.reading.keyAt.has(source);
  }

  key(source) {
    return rowOf(this.keys, this.reading.keyAt.get(source));
  }

  products(source) {
    const key = this.key(source);
    return Float64Array.from(this.query, (value, place) => value * key[place]);
  }

  maySee(source) {
    if (this.entry.seen === null) return true;
    const byte = rowOf(this.entry.seen, this.row)[source >> 3];
    return ((byte >> (source & 7)) & 1) === 1;
  }

  // From the sum of the products to the weight, every step on the way.
  scores(source) {
    const { scale, softcap, bias } = this.entry;
    const key = this.key(source);
    let sum = 0;
    for (let place = 0; place < key.length; place += 1) sum += this.query[place] * key[place];
    const raw = scale * sum;
    const capped = softcap === null ? raw : softcap * Math.tanh(raw / softcap);
    const added = bias === null ? null : rowOf(bias, this.row)[this.reading.keyAt.get(source)];
    const seen = this.maySee(source);
    const score = seen ? capped + (added ?? 0) : -Infinity;
    const weight = score === -Infinity ? 0 : Math.exp(score - this.level);
    return { sum, raw, capped, added, seen, score, weight };
  }

  weight(source) {
    return this.weights[this.reading.keyAt.get(source)];
  }

  part(source) {
    const weight = this.weight(source);
    const value = rowOf(this.values, this.reading.keyAt.get(source));
    return Float64Array.from(value, (entry) => (weight === 0 ? 0 : weight * entry));
  }

  outputPart(source) {
    const { projection } = this.entry;
    if (projection === null) return null;
    const output = new Float64Array(projection.shape[1]);
    this.part(source).forEach((value, place) => {
      const line = rowOf(projection, place);
      for (let at = 0; at < output.length; at += 1) output[at] += value * line[at];
    });
    return output;
  }

  length(source) {
    const norms = this.entry.value_norm;
    return norms === null ? null : this.weight(source) * norms.data[this.reading.keyAt.get(source)];
  }
}
