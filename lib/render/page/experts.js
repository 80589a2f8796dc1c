// The experts of a mixture: a row for each token, a column for each expert, coloured by the expert's weight.

const experts = { canvas: el('canvas', { 'aria-hidden': 'true' }), place: null };
const mostExpertRows = 800; // more tokens are pooled, by their largest weights

/// The weight of an expert for a token, 0 where it is not chosen.
function expertWeight({ chosen, of, weights }, token, expert) {
  for (let i = token * chosen; i < (token + 1) * chosen; ++i) if (of[i] === expert) return weights[i];
  return 0;
}

/// Where the map is within its picture: { left, top, width, height } in CSS pixels, and how many tokens share a row.
function placeOfExperts(layer, room) {
  const pool = Math.ceil(layer.T / mostExpertRows), rows = Math.ceil(layer.T / pool), { count } = layer.experts;
  const left = queryLabels(layer) ? 96 : 44;
  const across = Math.max(2, Math.min(28, Math.floor((room - left - 8) / count)));
  const down = Math.max(1, Math.min(16, Math.floor(640 / rows)));
  return { left, top: 24, across, down, pool, rows, width: across * count, height: down * rows };
}

/// One pixel for each expert and row of tokens.
function expertsMap(layer, paint, { pool, rows }) {
  const { count, chosen, of, weights } = layer.experts;
  const largest = new Float64Array(rows * count);
  for (let i = 0; i < of.length; ++i) {
    const at = Math.floor(Math.floor(i / chosen) / pool) * count + of[i];
    largest[at] = Math.max(largest[at], weights[i]);
  }
  const image = new ImageData(count, rows);
  largest.forEach((weight, at) => {
    const from = 3 * paint.index(weight);
    image.data.set([paint.table[from], paint.table[from + 1], paint.table[from + 2], 255], 4 * at);
  });
  const map = el('canvas');
  putMap(map, image, false);
  return map;
}

function paintExperts(context, layer, place) {
  const { left, top, across, down, pool, rows, width, height } = place, { count, weights } = layer.experts;
  const paint = painter({ low: 0, high: weights.reduce((most, weight) => Math.max(most, weight), 0) });
  context.imageSmoothingEnabled = false;
  context.drawImage(expertsMap(layer, paint, place), left, top, width, height);
  context.fillStyle = themed('--quiet');
  context.font = `${Math.max(9, Math.min(11, down - 1))}px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = 'middle';
  const step = (size) => [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => n * size >= 26) || 2000;
  const labels = queryLabels(layer), readable = labels && down >= 10;
  context.textAlign = 'right';
  for (let r = 0; r < rows; ++r) {
    if (!readable && r % step(down) !== 0) continue;
    const word = readable ? labels[r] : String(r * pool);
    context.fillText(cutTo(context, word, left - 10), left - 6, top + (r + 0.5) * down);
  }
  context.textAlign = 'center';
  for (let e = 0; e < count; e += step(across)) context.fillText(String(e), left + (e + 0.5) * across, top - 9);
  context.strokeStyle = themed('--line');
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  drawLegend(context, paint, left, top + height + 12, Math.min(160, width));
}

function drawExperts() {
  const layer = layers[state.layer];
  $('experts-section').hidden = !layer.experts;
  if (!layer.experts) return;
  const { count, chosen } = layer.experts;
  $('experts-count').textContent = `${chosen} of ${count} for each token · one row per token, one column per expert`;
  const place = (experts.place = placeOfExperts(layer, $('experts').clientWidth));
  const context = sized(experts.canvas, place.left + place.width + 8, place.top + place.height + 40);
  paintExperts(context, layer, place);
  if (state.pin !== 'query') return;
  context.strokeStyle = themed('--mark');
  context.lineWidth = 1.5;
  const row = Math.floor(state.query / place.pool);
  context.strokeRect(place.left - 1, place.top + row * place.down - 1, place.width + 2, place.down + 2);
}

/// The token and the expert under the pointer, of several tokens the one with the largest weight; null beside the map.
function expertAt(event) {
  const { place } = experts, layer = layers[state.layer], box = experts.canvas.getBoundingClientRect();
  const x = event.clientX - box.left - place.left, y = event.clientY - box.top - place.top;
  if (x < 0 || y < 0 || x >= place.width || y >= place.height) return null;
  const expert = Math.floor(x / place.across), first = Math.floor(y / place.down) * place.pool;
  let token = first;
  for (let t = first; t < Math.min(first + place.pool, layer.T); ++t)
    if (expertWeight(layer.experts, t, expert) > expertWeight(layer.experts, token, expert)) token = t;
  return { token, expert };
}

function setupExperts() {
  $('experts').append(experts.canvas);
  experts.canvas.addEventListener('mousemove', (event) => {
    const cell = expertAt(event), layer = layers[state.layer];
    if (!cell) return hideTip();
    const weight = expertWeight(layer.experts, cell.token, cell.expert);
    showTip(event, [`token ${named(cell.token, queryLabels(layer))} · expert ${cell.expert}`,
      weight === 0 ? 'not chosen' : `weight ${rounded(weight, 3)}`]);
  });
  experts.canvas.addEventListener('mouseleave', hideTip);
  experts.canvas.addEventListener('click', (event) => {
    const cell = expertAt(event);
    if (cell) update({ pin: 'query', query: cell.token });
  });
}

function expertsPicture() {
  const layer = layers[state.layer], { place } = experts;
  return { name: `experts${layer.id === '' ? '' : `-L${layer.id}`}`, width: place.left + place.width + 8,
    height: place.top + place.height + 40, paint: (context) => paintExperts(context, layer, place) };
}
