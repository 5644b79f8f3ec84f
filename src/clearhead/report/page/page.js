// ---- page: what is chosen, and who draws it again -----------------------------------------------

class Page {
  constructor(reading) {
    this.reading = reading;
    const { strip } = reading.look;
    const row = reading.rowAt.get(strip.target) ?? reading.rows.length - 1;
    this.choice = { row, token: reading.rows[row], by: strip.by, head: 0, source: reading.rows[row] };
    this.linksShown = Math.max(1, reading.look.heads.rows.length);
    this.view = {
      order: "layer",
      pooling: "max",
      whose: "average",
      shareFit: null,
      weightFit: null,
      opened: [],
      toggled: new Map(),
      cursor: null,
      hovered: null,
      strongAt: -1,
      cell: [0, 0],
    };
    // Every token of an answer can be looked from, so all of it stands open.
    const { documents } = reading.look;
    if (documents) this.view.opened.push([documents.answer.start, documents.answer.stop]);
    this.followStrongest();
  }

  // The strongest link of the chosen token that has steps to show, else the strongest of all.
  followStrongest() {
    const links = this.reading.linksOf(this.choice.row, this.choice.by);
    const telling = links.filter((link) => link.position !== 0 && link.position !== this.choice.token);
    const held = (link) => this.reading.stepAt.has(link.head);
    const link = telling.find(held) ?? links.find(held) ?? links[0];
    if (!link) return;
    Object.assign(this.choice, { head: link.head, source: link.position });
    const among = link === telling[0] ? "" : " and whose head's vectors are in this page";
    const why = link === links[0] ? null : `the strongest link that is neither on the first token nor on the token itself${among}`;
    this.followed = { ...this.choice, why: telling.includes(link) ? why : null };
  }

  // Why this very link is shown, where it is not simply the strongest.
  whyThisLink() {
    const same = ["row", "by", "head", "source"].every((name) => this.followed?.[name] === this.choice[name]);
    return same ? this.followed.why : null;
  }

  // What the look said of a word that was asked for holds for its own token only.
  asked(choice) {
    return choice.token === this.reading.look.strip.target ? this.firstWhich : null;
  }

  chooseToken(position) {
    const row = this.reading.rowAt.get(position);
    if (row === undefined) return showReadout(this, readoutOf(this, position, true));
    Object.assign(this.choice, { row, token: position });
    this.followStrongest();
    return this.redraw(`t-${position}`);
  }

  choosePair(token, source) {
    const row = this.reading.rowAt.get(token);
    Object.assign(this.choice, { row, token, source });
    this.redraw(`t-${source}`);
  }

  chooseSource(position) {
    if (!this.reading.reachable(position, this.choice.token)) return showReadout(this, readoutOf(this, position));
    this.choice.source = position;
    return this.redraw(`t-${position}`);
  }

  chooseLink({ head, position }) {
    Object.assign(this.choice, { head, source: position });
    this.redraw(`t-${position}`);
  }

  chooseHead(head) {
    this.choice.head = head;
    drawHeadGrid(this);
    drawMap(this);
    drawSteps(this);
    this.cellTable.redraw();
  }

  chooseMeasure(by) {
    this.choice.by = by;
    this.redraw(this.view.cursor);
  }

  nextStrong() {
    this.view.strongAt = (this.view.strongAt + 1) % this.reading.strong.length;
    const { head, row, position } = this.reading.strong[this.view.strongAt];
    this.choice.head = head;
    this.choosePair(row, position);
  }

  changeView(change, then = () => this.redraw(this.view.cursor)) {
    Object.assign(this.view, change);
    then();
  }

  changePooling(pooling) {
    this.changeView({ pooling, weightFit: null });
  }

  fitShares() {
    const shares = this.reading.shares(this.choice.row, this.choice.by);
    this.changeView({ shareFit: this.view.shareFit ? null : fittedScale(shares) });
  }

  fitWeights() {
    const values = this.reading.maps[this.view.pooling].data;
    this.changeView({ weightFit: this.view.weightFit ? null : fittedScale(values) });
  }

  repaint() {
    paintHeads(this);
    drawMap(this);
  }

  redraw(cursor) {
    this.view.cursor = cursor;
    drawHeadLine(this);
    drawStripControls(this);
    drawStrip(this);
    restReadout(this);
    drawSources(this);
    drawLinks(this);
    drawHeadControls(this);
    drawHeadGrid(this);
    drawMap(this);
    drawSteps(this);
    drawDocuments(this);
    this.sourceTable.redraw();
    this.headTable.redraw();
    this.cellTable.redraw();
  }

  begin() {
    this.firstWhich = find("which").textContent;
    find("all-heads").replaceChildren(...headsFrame());
    this.sourceTable = folding("Every listed source as a table", () => allSources(this));
    this.headTable = folding("Every head as a table", () => allHeads(this));
    this.cellTable = folding("Every cell as a table", () => allCells(this));
    find("cell-table").append(this.cellTable);
    find("all-sources").append(this.sourceTable);
    find("head-table").append(this.headTable);
    find("readout").hidden = false;
    find("readout").setAttribute("role", "status");
    for (const table of document.querySelectorAll("table[id]")) nameScroller(table);
    this.cells = makeHeadCells(this);
    listenToStrip(this);
    listenToHeads(this);
    listenToMap(this);
    if (this.reading.look.documents) listenToDocuments(this);
    // A map is painted in the colours of screen or paper, by day or by night.
    for (const asked of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(asked).addEventListener("change", () => this.repaint());
    }
    const [, rows, columns] = this.reading.maps.max.shape;
    find("map").style.aspectRatio = String(Math.min(2.5, Math.max(1, columns / rows)));
    this.redraw(null);
    document.documentElement.dataset.ready = "true";
  }
}

// What scrolls sideways can be scrolled with the keyboard.
function nameScroller(table) {
  const holder = table.closest(".scroll");
  holder.tabIndex = 0;
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", `table: ${table.id.replaceAll("-", " ")}`);
}

function jsonOf(id) {
  return JSON.parse(find(id).textContent);
}

const values = await withArrays(jsonOf("values"));
new Page(new Reading(values, jsonOf("shown"))).begin();
