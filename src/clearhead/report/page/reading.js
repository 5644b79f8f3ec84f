// ---- reading: what the values say about one chosen token, measure, head and source -----------

class Reading {
  constructor(values, shown) {
    Object.assign(this, values);
    this.shown = shown;
    this.tokens = this.look.strip.tokens;
    const { documents } = this.look;
    const paragraphs = shown.paragraphs.map(([start, stop]) => ({ start, stop }));
    // The parts that the text folds by.
    this.segments = documents ? [...documents.segments, documents.answer] : paragraphs;
    this.causal = this.look.strip.causal;
    this.rowAt = new Map(this.rows.map((position, row) => [position, row]));
    // Of a long text the page holds the keys of some positions only.
    const held = this.columns ? [...this.columns.data] : [...this.tokens.keys()];
    this.keyAt = new Map(held.map((position, place) => [position, place]));
    this.stepAt = new Map(this.steps.map((step, place) => [step.head, place]));
    this.measures = ["contribution", "attention"].filter((by) => this.head_share[by] !== null);
    this.remembered = new Map();
  }

  word(position) {
    const [label, name, piece] = this.shown.words[this.shown.token[position]];
    return { label, name, piece };
  }

  segmentName(place) {
    return this.shown.segments[place];
  }

  reachable(position, token) {
    return !this.causal || position <= token;
  }

  headName(head) {
    return `layer ${this.heads[head].layer}, head ${this.heads[head].head}`;
  }

  kindsOf(head) {
    return this.heads[head].kinds.map((kind) => `${kind.name} (score ${fixed(kind.score, 2)})`).join(", ");
  }

  // What one head needs to be shown step by step, unpacked.
  held(head) {
    return this.remember(`held ${head}`, async () => {
      const entry = this.steps[this.stepAt.get(head)];
      const mask = entry.mask === null ? null : this.masks[entry.mask];
      const parts = [withArrays(entry), withArrays(this.keys[entry.key]), withArrays(this.values[entry.value]), withArrays(mask)];
      const [own, keys, values, seen] = await Promise.all(parts);
      return { ...own, keys, values, seen };
    });
  }

  remember(key, make) {
    if (!this.remembered.has(key)) {
      if (this.remembered.size > 64) this.remembered.clear();
      this.remembered.set(key, make());
    }
    return this.remembered.get(key);
  }

  // Shares of one row: a number where it is known, NaN where only a bound is.
  shares(row, by) {
    return this.remember(`shares ${row} ${by}`, () => {
      const token = this.rows[row];
      if (token === this.look.strip.target) return this.sharesOfTheLook(by);
      const shares = new Float64Array(this.tokens.length);
      for (let at = 0; at < shares.length; at += 1) shares[at] = this.reachable(at, token) ? NaN : 0;
      this.listed(row).forEach((place, at) => (shares[at] = this.sources[by].data[place]));
      return shares;
    });
  }

  // The look carries the shares of its own token whole.
  sharesOfTheLook(by) {
    return Float64Array.from(this.tokens, (token) => token[`${by}_share`]);
  }

  // Where each listed source of a row stands in the arrays, by position.
  listed(row) {
    return this.remember(`listed ${row}`, () => {
      const { start, position } = this.sources;
      const places = new Map();
      for (let at = start.data[row]; at < start.data[row + 1]; at += 1) places.set(position.data[at], at);
      return places;
    });
  }

  below(row) {
    return this.sources.below.data[row];
  }

  // The known shares, largest first.
  ranked(row, by) {
    return this.remember(`ranked ${row} ${by}`, () => {
      const shares = this.shares(row, by);
      const known = [...shares.keys()].filter((position) => shares[position] > 0);
      return known.sort((one, other) => shares[other] - shares[one] || one - other);
    });
  }

  rank(row, by, position) {
    const ranks = this.remember(`ranks ${row} ${by}`, () => {
      return new Map(this.ranked(row, by).map((at, place) => [at, place + 1]));
    });
    return ranks.get(position);
  }

  // The head through which most came from one source, where it is listed.
  strongestHead(row, by, position) {
    const place = this.listed(row).get(position);
    const heads = this.sources[`${by}_head`];
    return place === undefined || heads === null ? null : heads.data[place];
  }

  headShare(row, by, head) {
    return rowOf(this.head_share[by], row)[head];
  }

  strongestWeight(row, head) {
    return { position: rowOf(this.top.position, row)[head], weight: rowOf(this.top.weight, row)[head] };
  }

  linksOf(row, by) {
    const links = this.links[by];
    const count = links.share.shape[1];
    const all = Array.from({ length: count }, (_, place) => {
      const at = row * count + place;
      const pick = (name) => links[name].data[at];
      const [head, position, share] = [pick("head"), pick("position"), pick("share")];
      return { head, position, share, weight: pick("weight"), length: links.length ? pick("length") : null };
    });
    return all.filter((link) => link.share > 0);
  }

  // What a stretch of the text brings: the sum of what is known, and whether more may hide in it.
  together(row, by, start, stop) {
    const shares = this.shares(row, by);
    let [share, largest, truncated] = [0, 0, false];
    for (let at = start; at < stop; at += 1) {
      if (Number.isNaN(shares[at])) truncated = true;
      else {
        share += shares[at];
        largest = Math.max(largest, shares[at]);
      }
    }
    if (truncated) largest = Math.max(largest, this.below(row));
    return { share, largest, truncated: truncated && this.below(row) > 0 };
  }
}
