// The head view: queries on the left, keys on the right, a line between them for each weight.

const lines = {
  queries: new TokenColumn('query'),
  keys: new TokenColumn('key'),
  canvas: el('canvas', { 'aria-hidden': 'true' }),
  inner: el('div', { class: 'lines-inner' }),
  heads: [], // { number, rows } of the chosen head, then of the others that are drawn
};
/// Weights below this are not drawn where the lines of all queries are.
const faintest = 0.02;

function setupLines() {
  lines.inner.append(lines.queries.element, lines.keys.element, lines.canvas);
  $('lines').append(lines.inner);
  $('lines').addEventListener('scroll', drawLines, { passive: true });
}

/// Pixels of the weights of so many heads beside a token.
function weightsWidth(heads) {
  return heads * (heads <= fewHeads ? 42 : 26);
}
/// Room for numbers, labels and weights side by side; a third of the view at most, or more for
/// the weights of several heads.
function columnWidth(labels, count, height, heads) {
  const measure = lines.measure || (lines.measure = el('canvas').getContext('2d'));
  measure.font = `${Math.min(13, height - 2)}px ${getComputedStyle(document.body).fontFamily}`;
  const widest = labels
    ? Math.max(...labels.slice(0, 2000).map((label) => measure.measureText(label).width)) : 0;
  const digits = measure.measureText(String(count)).width;
  return Math.min(Math.ceil(widest + digits) + 36 + weightsWidth(heads),
    Math.floor($('lines').clientWidth * (heads > 1 ? 0.46 : 0.36)));
}
/// The heads whose weights there is room for, the chosen one first; a note counts the others.
function headsWithNumbers() {
  const all = lines.heads.map(({ number, rows }) => ({ number, rows, color: headColor(number) }));
  const room = $('lines').clientWidth * 0.46 - 64; // beside the position and some letters
  let count = all.length;
  while (count > 1 && weightsWidth(count) > room) --count;
  const note = $('lines-note'), left = all.length - count;
  note.hidden = left === 0;
  note.textContent = left === 0 ? '' : `Numbers of ${count} of ${all.length} heads: there is no room here for more.`;
  return all.slice(0, count);
}

/// A coloured square a head: lit where its lines are drawn, a click adds or takes them away.
function drawSwatches() {
  const layer = layers[state.layer], chosen = layer.heads[state.head], also = alsoHeads();
  const box = $('swatches');
  box.hidden = layer.heads.length < 2 || layer.heads.length > 64;
  const at = [...box.children].indexOf(document.activeElement);
  box.replaceChildren(...layer.heads.map((number, h) => {
    const lit = number === chosen || also.includes(number);
    const square = el('button', {
      class: `square${number === chosen ? ' chosen' : ''}`, 'aria-pressed': String(lit),
      'aria-label': `Lines of head ${number}`, title: `head ${number}`,
      onclick: () => (number === chosen ? update({ also: '' })
        : update({ also: (lit ? also.filter((one) => one !== number) : [...also, number]).join(',') })),
      ondblclick: () => update({ head: h, also: '' }),
    }, String(number)); // seen where a finger meets it
    square.style.setProperty('--color', headColor(number));
    return square;
  }));
  if (at >= 0 && box.children[at]) box.children[at].focus();
}

function drawLines() {
  const layer = layers[state.layer];
  if (lines.heads.length === 0) return;
  const count = Math.max(layer.T, layer.S), height = rowHeight(count);
  const box = $('lines');
  lines.inner.style.height = `${count * height}px`;
  const top = box.scrollTop, view = Math.min(box.clientHeight, count * height);
  const first = Math.max(0, Math.floor(top / height)), last = Math.ceil((top + view) / height) + 1;
  const { query, key } = focus();
  const color = headColor(layer.heads[state.head]);
  const heads = headsWithNumbers();
  const none = heads.map(() => null);
  /// A token's weights; its background shows that of the chosen head.
  const weighed = (values) => ({ strength: values[0], values, strong: false, dim: !values.some((value) => value >= 0.01) });
  lines.queries.show(queryLabels(layer), first, Math.min(last, layer.T), height, (q) => {
    if (key !== undefined) return weighed(heads.map((head) => head.rows.at(q, key)));
    return { strength: query === q ? 0.25 : null, values: none, strong: query === q, dim: query !== undefined && query !== q && !isFound('query', q) };
  }, color, heads);
  lines.keys.show(keyLabels(layer), first, Math.min(last, layer.S), height, (k) => {
    if (query !== undefined && query < layer.T) return weighed(heads.map((head) => head.rows.at(query, k)));
    return { strength: key === k ? 0.25 : null, values: none, strong: key === k, dim: key !== undefined && key !== k };
  }, color, heads);

  // The canvas covers what is in view, between the columns.
  const left = columnWidth(queryLabels(layer), layer.T, height, heads.length);
  const right = columnWidth(keyLabels(layer), layer.S, height, heads.length);
  for (const [column, most] of [[lines.queries, layer.T], [lines.keys, layer.S]])
    column.element.style.setProperty('--digits', String(most - 1).length);
  lines.queries.element.style.width = `${left}px`;
  lines.keys.element.style.width = `${right}px`;
  const width = lines.inner.clientWidth - left - right;
  lines.canvas.style.left = `${left}px`;
  lines.canvas.style.top = `${top}px`;
  lines.shown = { left, right, width: Math.max(width, 20), top, view, height, first, last };
  strokeLines(sized(lines.canvas, lines.shown.width, view), lines.shown);
}

/// The curves between the rows that are in view, on a canvas of their own width.
function strokeLines(context, { width, top, view, height, first, last }) {
  const layer = layers[state.layer], { query, key } = focus();
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
  const margin = Math.ceil(view / height); // lines from queries out of view may end within it
  for (const head of [...lines.heads].reverse()) { // the chosen one on top
    context.strokeStyle = headColor(head.number);
    const from = query !== undefined ? query : key !== undefined ? 0 : Math.max(0, first - margin);
    const to = query !== undefined ? query + 1 : key !== undefined ? layer.T : Math.min(layer.T, last + margin);
    const alone = query !== undefined || key !== undefined;
    for (let q = from; q < Math.min(to, layer.T); ++q) {
      if (key !== undefined) {
        const weight = head.rows.at(q, key);
        if (weight > 0.001) line(q, key, weight, 0.15);
        continue;
      }
      const weights = head.rows.row(q);
      for (let k = 0; k < weights.length; ++k)
        if (weights[k] > (alone ? 0.001 : faintest)) line(q, k, weights[k], alone ? 0.15 : 0.04);
    }
  }
}

/// What is in view of the lines, with the tokens on both sides.
function linesPicture() {
  const layer = layers[state.layer], { left, right, width, top, view, height } = lines.shown;
  const margin = 24;
  return { name: pictureName('lines', layer, state.head), width: left + width + right, height: view + margin, paint(context) {
    const family = getComputedStyle(document.body).fontFamily;
    context.save();
    context.beginPath();
    context.rect(0, margin, left + width + right, view);
    context.clip();
    context.translate(0, margin);
    context.font = `${Math.min(13, height - 2)}px ${family}`;
    context.textBaseline = 'middle';
    context.fillStyle = themed('--ink');
    const column = (labels, count, x, align) => {
      context.textAlign = align;
      for (let i = Math.floor(top / height); i < Math.min(count, Math.ceil((top + view) / height)); ++i)
        context.fillText(labels ? named(i, labels) : String(i), x, (i + 0.5) * height - top);
    };
    column(queryLabels(layer), layer.T, left - 6, 'right');
    column(keyLabels(layer), layer.S, left + width + 6, 'left');
    context.translate(left, 0);
    strokeLines(context, lines.shown);
    context.restore();
    context.fillStyle = themed('--quiet');
    context.font = `12px ${family}`;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillText(`${page.title} · ${headName(layer, state.head)}`, 6, 11);
  } };
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
