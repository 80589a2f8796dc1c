// The data of the page: the layers as JSON, and the rows of their stages as packed chunks, which are
// unpacked when a view needs them (lib/observe/packed_rows.hpp describes the bytes).

const page = JSON.parse($('data').textContent);
const layers = page.layers;

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}
async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
/// Elements from byte planes (every first byte first), put together again.
function together(bytes, count, size) {
  const out = new Uint8Array(count * size);
  for (let byte = 0; byte < size; ++byte)
    for (let i = 0, from = byte * count; i < count; ++i) out[i * size + byte] = bytes[from + i];
  return out.buffer;
}

/// The rows of one stage of one head.
class Rows {
  constructor(stage, dtype, bytes) {
    this.rows = stage.rows;
    this.cols = stage.cols;
    this.exact = stage.form === 'exact';
    [this.queries, this.keys] = stage.factors; // of a pooled map: how many a cell covers
    this.pooled = this.queries * this.keys > 1; // then hidden cells are -Infinity
    const count = stage.rows * stage.cols;
    if (this.exact) {
      this.dtype = dtype;
      const wide = dtype === 'float64';
      const buffer = together(bytes, count, wide ? 8 : 4);
      this.numbers = wide ? new Float64Array(buffer) : new Float32Array(buffer);
    } else {
      this.dtype = 'float64';
      this.scales = new Float32Array(bytes.slice(0, 8 * stage.rows).buffer);
      this.codes = new Uint16Array(together(bytes.subarray(8 * stage.rows), count, 2));
    }
  }

  at(row, col) {
    const i = row * this.cols + col;
    if (this.exact) return this.numbers[i];
    const code = this.codes[i];
    if (code >= 65533) return code === 65533 ? NaN : code === 65534 ? Infinity : -Infinity;
    return this.scales[2 * row] + code * this.scales[2 * row + 1];
  }
  row(row) {
    if (this.exact) return this.numbers.subarray(row * this.cols, (row + 1) * this.cols);
    const values = new Float64Array(this.cols);
    for (let col = 0; col < this.cols; ++col) values[col] = this.at(row, col);
    return values;
  }
  /// The smallest and largest finite number.
  range() {
    if (this.limits) return this.limits;
    let low = Infinity, high = -Infinity;
    for (let r = 0; r < this.rows; ++r) {
      const row = this.row(r);
      for (let c = 0; c < row.length; ++c) {
        const value = row[c];
        if (value - value !== 0) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    return (this.limits = low <= high ? { low, high } : { low: 0, high: 0 });
  }
}

/// Only the largest numbers of each row: what is not kept is 0, and at most `below(row)`.
class LargestOfRows {
  constructor(stage, bytes) {
    this.rows = stage.rows;
    this.cols = stage.cols;
    this.kept = stage.kept;
    this.exact = true;
    this.dtype = 'float32';
    const count = stage.rows * stage.kept;
    this.keys = new Uint32Array(together(bytes.subarray(0, 4 * count), count, 4));
    this.numbers = new Float32Array(together(bytes.subarray(4 * count), count, 4));
  }
  place(row, col) {
    const end = (row + 1) * this.kept;
    for (let i = row * this.kept; i < end; ++i) if (this.keys[i] === col) return i;
    return -1;
  }
  at(row, col) {
    const place = this.place(row, col);
    return place < 0 ? 0 : this.numbers[place];
  }
  below(row) {
    return this.numbers[(row + 1) * this.kept - 1];
  }
  row(row) {
    const values = new Float32Array(this.cols);
    for (let i = row * this.kept; i < (row + 1) * this.kept; ++i) values[this.keys[i]] = this.numbers[i];
    return values;
  }
  range() {
    if (!this.limits) this.limits = { low: 0, high: this.numbers.reduce((high, value) => Math.max(high, value), 0) };
    return this.limits;
  }
}

/// One bit per key, set where it is hidden from the query.
class BitRows {
  constructor(stage, bytes) {
    this.rowBytes = Math.ceil(stage.cols / 8);
    this.bytes = bytes;
  }
  at(row, col) {
    return (this.bytes[row * this.rowBytes + (col >> 3)] >> (col & 7)) & 1;
  }
}

function rowsOf(stage, dtype, bytes) {
  if (stage.form === 'largest') return new LargestOfRows(stage, bytes);
  return stage.form === 'bits' ? new BitRows(stage, bytes) : new Rows(stage, dtype, bytes);
}
const unpacked = new Map();
/// The rows of a stage ("weights", "q" …) of a layer's head; null where the page has none. Heads
/// are counted by their place in the layer's list; k and v by the one that the head reads.
function load(layer, name, head) {
  const stage = layer.stages[name];
  if (!stage) return Promise.resolve(null);
  const chunk = stage.heads[name === 'k' || name === 'v' ? layer.kv[head] : head];
  const known = layer.run ? layer.run.unpacked : unpacked;
  const text = () => (layer.run ? layer.run.chunks.get(chunk) : $(`chunk${chunk}`).textContent);
  if (!known.has(chunk))
    known.set(chunk, inflated(bytesOf(text())).then((bytes) => rowsOf(stage, layer.dtype, bytes)));
  document.documentElement.dataset.unpacked = unpacked.size; // for tests
  return known.get(chunk);
}

/// Everything that the views need of a head, ready.
async function loadHead(layer, head) {
  const names = ['weights', 'pooled', 'hidden', 'masked', 'scores', 'q', 'k', 'v', 'head_out'];
  const loaded = await Promise.all(names.map((name) => load(layer, name, head)));
  return Object.fromEntries(names.map((name, i) => [name, loaded[i]]));
}

/// Whether a key is masked for a query: the one rule of thumbnails, matrix and steps. Pooled cells
/// follow the same one (lib/observe/hidden_keys.hpp).
function isHidden(layer, hidden, query, key) {
  if (layer.visible) return key < layer.visible[2 * query] || key >= layer.visible[2 * query + 1];
  return hidden !== null && hidden.at(query, key) === 1;
}

const queryLabels = (layer) => (layer.tokens.length > 0 ? layer.tokens : null);
const keyLabels = (layer) => {
  const labels = layer.keys || layer.tokens;
  return labels.some((label) => label !== '') ? labels : null;
};
/// "layer 1 · head 0".
function headName(layer, head) {
  const words = [];
  if (layer.id !== '') words.push(`layer ${layer.id}`);
  if (layer.batch !== undefined) words.push(`item ${layer.batch}`);
  words.push(`head ${layer.heads[head]}`);
  return words.join(' · ');
}
/// "L1 H0", for cards.
function shortName(layer, head) {
  return `${layer.id === '' ? '' : `L${layer.id} `}${layer.batch === undefined ? '' : `B${layer.batch} `}H${layer.heads[head]}`;
}
/// The value of a measure ("entropy"), or null.
function measureOf(layer, head, name) {
  const index = (layer.run || page).measures.findIndex((measure) => measure.name === name);
  const measures = layer.measures[head];
  return index < 0 || !measures ? null : measures.values[index];
}
