// The matrix: every weight of a head, its exact value under the pointer. A page has one, and a second
// one of what is opened beside it.

const zooms = [0, 256, 64, 24];
const longestLabel = 76; // pixels of a token beside the matrix, or above it

class Matrix {
  /// The ids of the element that holds it and of its readout; layer(): the layer that is drawn.
  constructor(host, cell, layer) {
    this.host = host;
    this.cell = cell;
    this.layerOf = layer;
    this.canvas = el('canvas', { 'aria-hidden': 'true' });
    this.marks = el('canvas', { class: 'marks', 'aria-hidden': 'true' });
    this.head = null;   // the stages of the head
    this.window = null; // { q, k, rows, cols }: what is shown of the map
    this.place = null;  // { left, top, cell, width, height } in CSS pixels
  }
  get layer() {
    return this.layerOf();
  }

  setup() {
    $(this.host).append(this.canvas, this.marks);
    this.marks.addEventListener('mousemove', (event) => {
      const cell = this.cellAt(event);
      setHover(cell || {});
      if (cell) showTip(event, this.cellLines(cell));
      else hideTip();
    });
    this.marks.addEventListener('mouseleave', () => {
      setHover({});
      hideTip();
    });
    this.marks.addEventListener('click', (event) => {
      const cell = this.cellAt(event);
      if (!cell) return;
      const same = state.pin === 'query' && state.query === cell.query && state.key === cell.key;
      update(same ? { pin: null } : { pin: 'query', query: cell.query, key: cell.key });
    });
  }

  /// Whether it is drawn, and has the cell.
  holds({ query, key }) {
    return this.head !== null && query < this.layer.T && key < this.layer.S;
  }
  shownRows() {
    return this.head && (this.head[state.stage] || this.head.weights);
  }
  /// Whether the picture is of pools of cells instead of cells.
  isPooled() {
    return state.stage === 'weights' && state.zoom === 0 && this.head.weights.kept > 0 && this.head.pooled !== null;
  }
  hidden(query, key) {
    return isHidden(this.layer, this.head.hidden, query, key);
  }

  /// The axis down the matrix and the one across it: queries and keys, or keys and queries where
  /// tokens are columns.
  sides() {
    const { window: view, layer } = this;
    const queries = { first: view.q, count: view.rows, labels: queryLabels(layer) };
    const keys = { first: view.k, count: view.cols, labels: keyLabels(layer) };
    return layer.columns ? [keys, queries] : [queries, keys];
  }
  /// The pixels along the keys and along the queries.
  extent() {
    const { width, height } = this.place;
    return this.layer.columns ? [height, width] : [width, height];
  }

  /// The cell under the pointer; where a pixel covers several, the largest of them.
  cellAt(event) {
    const { place, window: view } = this;
    if (!place) return null;
    const box = this.marks.getBoundingClientRect();
    const across = event.clientX - box.left - place.left, down = event.clientY - box.top - place.top;
    if (across < 0 || down < 0 || across >= place.width || down >= place.height) return null;
    const [x, y] = this.layer.columns ? [down, across] : [across, down], [wide, high] = this.extent();
    const range = (at, size, count, first) => {
      const low = Math.floor((at / size) * count);
      const high = Math.max(low + 1, Math.floor(((at + 1) / size) * count));
      return [first + Math.min(low, count - 1), first + Math.min(high, count)];
    };
    const rows = this.shownRows();
    if (this.isPooled()) return this.strongestOfPool(y, x);
    if (place.cell >= 1)
      return { query: view.q + Math.floor(y / place.cell), key: view.k + Math.floor(x / place.cell) };
    const [q0, q1] = range(y, high, view.rows, view.q);
    const [k0, k1] = range(x, wide, view.cols, view.k);
    let best = { query: q0, key: k0 }, most = -Infinity;
    for (let q = q0; q < q1; ++q)
      for (let k = k0; k < k1; ++k)
        if (rows.at(q, k) > most) (most = rows.at(q, k)), (best = { query: q, key: k });
    return best;
  }

  /// The largest weight that is kept of the pool under the pointer, else its middle.
  strongestOfPool(y, x) {
    const layer = this.layer, { pooled, weights } = this.head;
    const pool = (at, size, factor, total) => {
      const first = Math.floor(((at / size) * total) / factor) * factor;
      return [first, Math.min(first + factor, total)];
    };
    const [wide, high] = this.extent();
    const [q0, q1] = pool(y, high, pooled.queries, layer.T);
    const [k0, k1] = pool(x, wide, pooled.keys, layer.S);
    let best = { query: (q0 + q1) >> 1, key: (k0 + k1) >> 1 }, most = 0;
    for (let q = q0; q < q1; ++q)
      for (let i = q * weights.kept; i < (q + 1) * weights.kept; ++i)
        if (weights.keys[i] >= k0 && weights.keys[i] < k1 && weights.numbers[i] > most) {
          most = weights.numbers[i];
          best = { query: q, key: weights.keys[i] };
        }
    return best;
  }

  cellText({ query, key }) {
    const rows = this.shownRows(), value = rows.at(query, key);
    if (rows.kept && rows.place(query, key) < 0)
      return this.hidden(query, key) ? '0' : `at most ${rounded(rows.below(query), 3)}`;
    return rows.exact ? exact(value, rows.dtype) : `≈ ${rounded(value, 5)}`;
  }
  cellLines(cell) {
    const layer = this.layer;
    const lines = [this.cellText(cell),
      `query ${named(cell.query, queryLabels(layer))}`, `key ${named(cell.key, keyLabels(layer))}`];
    if (this.hidden(cell.query, cell.key)) lines.push('hidden by the mask');
    const other = this === matrix ? beside.matrix : matrix;
    if (other.holds(cell)) lines.push(`beside it ${other.cellText(cell)}`);
    return lines;
  }

  /// What is shown: all, or so many tokens around the chosen cell.
  fitWindow(layer) {
    const size = state.zoom;
    const rows = size > 0 ? Math.min(size, layer.T) : layer.T;
    const cols = size > 0 ? Math.min(size, layer.S) : layer.S;
    let { q, k } = this.window || { q: -1, k: -1 };
    const strongest = () => {
      const row = this.head.weights.row(Math.min(state.query, layer.T - 1));
      return row.reduce((best, weight, i) => (weight > row[best] ? i : best), 0);
    };
    const key = state.key === null ? strongest() : Math.min(state.key, layer.S - 1);
    const around = (at, first, count, total) =>
      at >= first && at < first + count && first >= 0 && first + count <= total
        ? first : Math.max(0, Math.min(total - count, at - Math.floor(count / 2)));
    q = around(Math.min(state.query, layer.T - 1), q, rows, layer.T);
    k = around(key, k, cols, layer.S);
    this.window = { q, k, rows, cols };
  }

  draw() {
    const layer = this.layer, rows = this.shownRows();
    const outer = $(this.host).clientWidth;
    if (!rows || outer < 100) return; // not laid out yet: a resize follows
    this.fitWindow(layer);
    const view = this.window;
    const [down, across] = this.sides();
    const style = getComputedStyle(document.body);
    const measure = sized(this.canvas, 1, 1);
    measure.font = `11px ${style.fontFamily}`;
    const widest = (list) => Math.min(longestLabel, Math.max(...(list || ['0000'])
      .slice(0, 2000).map((label) => measure.measureText(label).width)));

    const fits = (margin) => (outer - margin - 8) / across.count;
    const readable = fits(90) >= 9;
    const left = Math.ceil((readable && down.labels ? widest(down.labels) : 26) + 10);
    const top = Math.ceil((readable && across.labels ? widest(across.labels) : 14) + 10);
    const high = 760;
    const size = Math.min(fits(left), Math.max(high / down.count, 6), 48);
    const cell = size >= 1 ? Math.floor(size) : size;
    const width = Math.floor(cell * across.count), height = Math.max(1, Math.floor(cell * down.count));
    const legend = 40;
    this.place = { left, top, cell, width, height };
    this.marks.dataset.place = JSON.stringify({ ...this.place, ...view }); // for tests
    this.size = { width: outer, height: top + height + legend };
    this.readable = readable;
    sized(this.marks, outer, top + height);
    this.paint(sized(this.canvas, outer, this.size.height));
    this.drawMarks();
  }

  /// The colours: the same of both where two are side by side.
  painter() {
    const ranges = [matrix, beside.matrix].filter((one) => one.head !== null)
      .map((one) => (one.isPooled() ? one.head.pooled : one.shownRows()).range());
    const high = Math.max(...ranges.map((range) => range.high));
    return state.stage !== 'weights'
      ? painter({ high: Math.max(high, ...ranges.map((range) => Math.abs(range.low))), signed: true })
      : painter({ low: 0, high, log: state.colors === 'log' });
  }

  /// Cells, axes and what the colours mean, on a canvas or for a saved picture.
  paint(context) {
    const layer = this.layer, rows = this.shownRows(), view = this.window;
    const pooled = this.isPooled() ? this.head.pooled : null;
    const { left, top, width, height } = this.place, paint = this.painter();
    this.paintCells(context, pooled || rows, paint,
      pooled ? { q: 0, k: 0, rows: pooled.rows, cols: pooled.cols } : view, this.place, layer);
    this.drawAxes(context, this.sides(), this.readable);
    drawLegend(context, paint, left, top + height + 16, Math.min(width, 240));
  }

  /// One pixel per cell, then scaled; or the largest of the cells that a pixel covers. `view` counts
  /// the cells of `rows`, which may be pools of queries and keys.
  paintCells(context, rows, paint, view, { left, top, width, height, cell }, layer) {
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = this.extent();
    const fewer = wide * ratio < view.cols || high * ratio < view.rows;
    const w = fewer ? Math.min(Math.round(wide * ratio), view.cols) : view.cols;
    const h = fewer ? Math.min(Math.round(high * ratio), view.rows) : view.rows;
    const picture = el('canvas');
    const image = new ImageData(w, h);
    const best = new Float64Array(w);
    const none = channels(themed('--hidden').slice(1)), alarm = channels(themed('--mark').slice(1));
    const columns = Array.from({ length: view.cols }, (_, c) => Math.floor((c * w) / view.cols));
    const { hidden: bits } = this.head;
    for (let y = 0; y < h; ++y) {
      best.fill(-Infinity);
      const first = Math.floor((y * view.rows) / h);
      const end = Math.max(first + 1, Math.floor(((y + 1) * view.rows) / h));
      for (let r = first; r < end; ++r) {
        const row = rows.row(view.q + r);
        for (let c = 0; c < view.cols; ++c) {
          const value = row[view.k + c];
          if (value !== value) best[columns[c]] = Infinity; // is not a number: must be seen
          if (!(value > best[columns[c]])) continue;
          if (rows.pooled || !isHidden(layer, bits, view.q + r, view.k + c)) best[columns[c]] = value;
        }
      }
      for (let x = 0; x < w; ++x) {
        const at = 4 * (y * w + x);
        const special = best[x] === -Infinity ? none : best[x] === Infinity ? alarm : null;
        const from = special ? 0 : 3 * paint.index(best[x]);
        for (let i = 0; i < 3; ++i) image.data[at + i] = special ? special[i] : paint.table[from + i];
        image.data[at + 3] = 255;
      }
    }
    putMap(picture, image, layer.columns);
    context.imageSmoothingEnabled = false;
    // The last pools may reach beyond the map.
    const ofKeys = rows.pooled ? (view.cols * rows.keys) / layer.S : 1;
    const ofQueries = rows.pooled ? (view.rows * rows.queries) / layer.T : 1;
    const [right, bottom] = layer.columns ? [ofQueries, ofKeys] : [ofKeys, ofQueries];
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.drawImage(picture, left, top, width * right, height * bottom);
    context.restore();
  }

  drawAxes(context, [down, across], readable) {
    const { left, top, cell, width, height } = this.place;
    context.fillStyle = themed('--quiet');
    context.textBaseline = 'middle';
    const every = cell >= 9 ? 1 : [2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((n) => n * cell >= 30);
    const text = (list, i) => (readable && list ? list[i] : String(i));
    const step = (list) => (readable && list ? 1 : Math.max(every, cell >= 9 && cell < 16 ? 5 : 1));
    const cut = (word) => cutTo(context, word, longestLabel);
    context.font = `${Math.min(11, Math.max(9, cell - 1))}px ${getComputedStyle(document.body).fontFamily}`;
    context.textAlign = 'right';
    for (let r = 0; r < down.count; ++r)
      if ((down.first + r) % step(down.labels) === 0)
        context.fillText(cut(text(down.labels, down.first + r)), left - 6, top + (r + 0.5) * cell);
    for (let c = 0; c < across.count; ++c) {
      if ((across.first + c) % step(across.labels) !== 0) continue;
      context.save();
      context.translate(left + (c + 0.5) * cell, top - 6);
      if (readable && across.labels) {
        context.rotate(-Math.PI / 2);
        context.textAlign = 'left';
      } else {
        context.textAlign = 'center';
        context.translate(0, -5);
      }
      context.fillText(cut(text(across.labels, across.first + c)), 0, 0);
      context.restore();
    }
    context.strokeStyle = themed('--line');
    context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  }

  /// The rows, columns and cells that are pinned or under the pointer.
  drawMarks() {
    const { place, window: view } = this;
    if (!place || this.head === null) return;
    const context = this.marks.getContext('2d');
    context.clearRect(0, 0, this.marks.width, this.marks.height);
    const { left, top, cell } = place, [width, height] = this.extent();
    const line = (keyAt, queryAt, keys, queries, color, thick) => {
      const [x, y, w, h] = this.layer.columns ? [queryAt, keyAt, queries, keys] : [keyAt, queryAt, keys, queries];
      context.strokeStyle = color;
      context.lineWidth = thick;
      context.strokeRect(left + x - thick / 2, top + y - thick / 2, w + thick, h + thick);
    };
    const size = Math.max(cell, 1);
    const rowAt = (q) => (q - view.q) * cell, colAt = (k) => (k - view.k) * cell;
    const within = (at, first, count) => at !== null && at !== undefined && at >= first && at < first + count;
    const mark = themed('--mark');
    if (state.pin === 'query' && within(state.query, view.q, view.rows))
      line(0, rowAt(state.query), width, size, mark, 1.5);
    if (state.pin === 'key' && within(state.key, view.k, view.cols))
      line(colAt(state.key), 0, size, height, mark, 1.5);
    if (state.pin === 'query' && within(state.query, view.q, view.rows) && within(state.key, view.k, view.cols))
      line(colAt(state.key), rowAt(state.query), size, size, mark, 3);
    const pale = themed('--pale-mark');
    if (within(hover.query, view.q, view.rows)) line(0, rowAt(hover.query), width, size, pale, 1);
    if (within(hover.key, view.k, view.cols)) line(colAt(hover.key), 0, size, height, pale, 1);
    const cellShown = hover.query !== undefined && hover.key !== undefined ? hover
      : state.key !== null && state.pin === 'query' ? { query: state.query, key: state.key } : null;
    const layer = this.layer;
    $(this.cell).textContent = cellShown && within(cellShown.query, 0, layer.T) && within(cellShown.key, 0, layer.S)
      ? `query ${named(cellShown.query, queryLabels(layer))} · key ${named(cellShown.key, keyLabels(layer))} · ${state.stage} ${this.cellText(cellShown)}${this.hidden(cellShown.query, cellShown.key) ? ', hidden by the mask' : ''}`
      : '\u00a0';
  }
}

/// What the colours mean.
function drawLegend(context, paint, left, top, width) {
  for (let x = 0; x < width; ++x) {
    const at = 3 * Math.round((255 * x) / (width - 1));
    context.fillStyle = `rgb(${paint.table[at]} ${paint.table[at + 1]} ${paint.table[at + 2]})`;
    context.fillRect(left + x, top, 1.2, 7);
  }
  context.fillStyle = themed('--quiet');
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = 'top';
  context.textAlign = 'left';
  const low = paint.signed ? -paint.high : paint.log ? paint.high * 1e-4 : paint.low;
  context.fillText(paint.log ? `≤ ${Number(low.toPrecision(2))}` : rounded(low, 3), left, top + 11);
  context.textAlign = 'right';
  context.fillText(rounded(paint.high, 3), left + width, top + 11);
}

const matrix = new Matrix('matrix', 'cell', () => layers[state.layer]);
