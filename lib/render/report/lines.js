// The head view: queries on the left, keys on the right, a line between them for each weight.

const lines = {
  queries: new TokenColumn('query'),
  keys: new TokenColumn('key'),
  canvas: el('canvas', { 'aria-hidden': 'true' }),
  inner: el('div', { class: 'lines-inner' }),
  rows: null,
};
/// Weights below this share of the largest are not drawn where all queries are.
const faintest = 0.02;

function setupLines() {
  lines.inner.append(lines.queries.element, lines.keys.element, lines.canvas);
  $('lines').append(lines.inner);
  $('lines').addEventListener('scroll', drawLines, { passive: true });
}

/// Room for numbers, labels and weights beside each other; a third of the view at most.
function columnWidth(labels, count, height) {
  const measure = lines.measure || (lines.measure = el('canvas').getContext('2d'));
  measure.font = `${Math.min(13, height - 2)}px ${getComputedStyle(document.body).fontFamily}`;
  const widest = labels
    ? Math.max(...labels.slice(0, 2000).map((label) => measure.measureText(shown(label)).width)) : 0;
  const digits = measure.measureText(String(count)).width;
  return Math.min(Math.ceil(widest + digits) + 74, Math.floor($('lines').clientWidth * 0.36));
}

function drawLines() {
  const layer = layers[state.layer], { rows } = lines;
  if (!rows) return;
  const count = Math.max(layer.T, layer.S), height = rowHeight(count);
  const box = $('lines');
  lines.inner.style.height = `${count * height}px`;
  const top = box.scrollTop, view = Math.min(box.clientHeight, count * height);
  const first = Math.max(0, Math.floor(top / height)), last = Math.ceil((top + view) / height) + 1;
  const { query, key } = focus();
  const row = query !== undefined && query < layer.T ? rows.row(query) : null;
  const color = headColor(layer.heads[state.head]);

  const weightOf = (q, k) => rows.at(q, k);
  lines.queries.show(queryLabels(layer), first, Math.min(last, layer.T), height, (q) => {
    if (key !== undefined) {
      const weight = weightOf(q, key);
      return { strength: weight, value: weight >= 0.0005 ? weight : null, strong: false, dim: !(weight >= 0.01) };
    }
    return { strength: query === q ? 0.25 : null, value: null, strong: query === q, dim: query !== undefined && query !== q };
  }, color);
  lines.keys.show(keyLabels(layer), first, Math.min(last, layer.S), height, (k) => {
    if (row) {
      const weight = row[k];
      return { strength: weight, value: weight >= 0.0005 ? weight : null, strong: false, dim: !(weight >= 0.01) };
    }
    return { strength: key === k ? 0.25 : null, value: null, strong: key === k, dim: key !== undefined && key !== k };
  }, color);

  // The canvas covers what is in view, between the columns.
  const left = columnWidth(queryLabels(layer), layer.T, height);
  const right = columnWidth(keyLabels(layer), layer.S, height);
  lines.queries.element.style.width = `${left}px`;
  lines.keys.element.style.width = `${right}px`;
  const width = lines.inner.clientWidth - left - right;
  lines.canvas.style.left = `${left}px`;
  lines.canvas.style.top = `${top}px`;
  const context = sized(lines.canvas, Math.max(width, 20), view);
  context.strokeStyle = color;
  context.lineCap = 'round';
  const line = (q, k, weight, least) => {
    const y0 = (q + 0.5) * height - top, y1 = (k + 0.5) * height - top;
    if ((y0 < -40 && y1 < -40) || (y0 > view + 40 && y1 > view + 40)) return;
    const share = Math.min(weight, 1);
    context.globalAlpha = Math.max(least, 0.9 * share);
    context.lineWidth = 0.5 + 4.5 * share;
    context.beginPath();
    context.moveTo(3, y0);
    context.bezierCurveTo(width * 0.4, y0, width * 0.6, y1, width - 3, y1);
    context.stroke();
  };
  if (row) {
    for (let k = 0; k < row.length; ++k) if (row[k] > 0.001) line(query, k, row[k], 0.15);
  } else if (key !== undefined) {
    for (let q = 0; q < layer.T; ++q) {
      const weight = weightOf(q, key);
      if (weight > 0.001) line(q, key, weight, 0.15);
    }
  } else {
    const margin = Math.ceil(view / height);
    for (let q = Math.max(0, first - margin); q < Math.min(layer.T, last + margin); ++q) {
      const one = rows.row(q);
      for (let k = 0; k < one.length; ++k) if (one[k] > faintest) line(q, k, one[k], 0.04);
    }
  }
}

/// Scrolls so that the pinned token is in view.
function revealToken() {
  const layer = layers[state.layer], box = $('lines');
  const height = rowHeight(Math.max(layer.T, layer.S));
  lines.inner.style.height = `${Math.max(layer.T, layer.S) * height}px`;
  const at = (state.pin === 'key' ? state.key : state.query) * height;
  if (at < box.scrollTop || at + height > box.scrollTop + box.clientHeight)
    box.scrollTop = Math.max(0, at - box.clientHeight / 2);
}
