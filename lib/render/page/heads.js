// The grid: every head as a small map, sorted by a measure.

const cards = new Map(); // "layer head" → its button

/// The heads in view, sorted: [[layer, head], …].
function sortedHeads() {
  const list = [];
  layers.forEach((layer, l) => {
    if (state.scope === 'layer' && l !== state.layer) return;
    layer.heads.forEach((_, h) => list.push([l, h]));
  });
  if (state.sort === 'head') return state.order === 'down' ? list : list.reverse();
  const sign = state.order === 'down' ? -1 : 1;
  const value = ([l, h]) => measureOf(layers[l], h, state.sort);
  return list.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  });
}

/// The largest weight of all heads on the page, or null: the end of the small maps' common colours.
/// As in `stats`, queries that see one key do not count, since they would make it 1 on every causal
/// page. It is 1 where no query sees more.
const everyHead = layers.flatMap((layer) => layer.heads.map((_, h) => (name) => measureOf(layer, h, name)));
const commonHigh = everyHead.every((head) => head('rows') === 0) ? 1
  : everyHead.reduce((high, head) => (head('max') === null ? high : Math.max(high ?? 0, head('max'))), null);
const hasLoneKeys = layers.some((layer) => layer.stages.hidden
  || (layer.visible && layer.visible.some((end, i) => i % 2 === 1 && end - layer.visible[i - 1] === 1)));
const hasCommonRange = () => state.range === 'common' && commonHigh > 0;

/// The colours from the lowest to the highest, in a small canvas.
function drawBar(canvas, paint) {
  const context = canvas.getContext('2d');
  canvas.width = 256;
  canvas.height = 1;
  for (let x = 0; x < 256; ++x) {
    const at = 3 * x;
    context.fillStyle = `rgb(${paint.table[at]} ${paint.table[at + 1]} ${paint.table[at + 2]})`;
    context.fillRect(x, 0, 1, 1);
  }
}

/// The legend of the small maps' colours: a bar between two numbers, and whose they are.
function drawScale() {
  const log = state.colors === 'log', common = hasCommonRange();
  drawBar($('scale-bar'), painter({ low: 0, high: 1, log }));
  $('scale-low').textContent = !log ? '0' : common ? `≤ ${Number((commonHigh * 1e-4).toPrecision(2))}` : '≤ 0.0001 of it';
  $('scale-high').textContent = !common ? 'its largest weight'
    : `${hasLoneKeys && commonHigh < 0.9995 ? '≥ ' : ''}${rounded(commonHigh, 3)}`;
  $('scale-note').textContent = common
    ? `${log ? 'logarithmic, ' : ''}the same in every small map`
    : `${log ? 'logarithmic, ' : ''}each small map by itself: colours of two heads do not compare`;
}

/// Draws rows into a small canvas: one pixel per cell, or the largest of the cells of a pixel.
function drawSmall(canvas, layer, rows, hidden, log) {
  const most = 128;
  const height = Math.min(rows.rows, most), width = Math.min(rows.cols, most);
  const high = hasCommonRange() ? commonHigh : rows.range().high;
  const paint = painter({ low: 0, high, log });
  const image = new ImageData(width, height);
  const best = new Float64Array(width), alarm = channels(themed('--mark').slice(1));
  for (let y = 0; y < height; ++y) {
    best.fill(-Infinity);
    const end = Math.floor(((y + 1) * rows.rows) / height);
    for (let r = Math.floor((y * rows.rows) / height); r < end; ++r) {
      const row = rows.row(r);
      for (let c = 0; c < row.length; ++c) {
        if (!rows.pooled && isHidden(layer, hidden, r, c)) continue;
        const x = Math.floor((c * width) / rows.cols);
        if (row[c] !== row[c]) best[x] = Infinity; // is not a number: must be seen
        if (row[c] > best[x]) best[x] = row[c];
      }
    }
    for (let x = 0; x < width; ++x) {
      if (best[x] === -Infinity) continue; // hidden by the mask: transparent
      const at = 4 * (y * width + x), from = best[x] === Infinity ? -1 : 3 * paint.index(best[x]);
      for (let i = 0; i < 3; ++i) image.data[at + i] = from < 0 ? alarm[i] : paint.table[from + i];
      image.data[at + 3] = 255;
    }
  }
  putMap(canvas, image, layer.columns);
}

/// Small maps are drawn when they come into view, and again when the colours change.
const inView = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    entry.target.dataset.seen = entry.isIntersecting ? 'yes' : '';
    if (entry.isIntersecting) drawCard(entry.target);
  }
}, { rootMargin: '200px' });
async function drawCard(card) {
  const look = `${state.colors} ${state.range}`;
  if (card.dataset.drawn === look || card.dataset.seen !== 'yes') return;
  card.dataset.drawn = look;
  const [l, h] = card.dataset.place.split(' ').map(Number);
  const layer = layers[l];
  const [weights, hidden] = await Promise.all(
    [layer.stages.pooled ? 'pooled' : 'weights', 'hidden'].map((name) => load(layer, name, h)));
  drawSmall(card.querySelector('canvas'), layer, weights, hidden, state.colors === 'log');
}

function cardOf(l, h) {
  const key = `${l} ${h}`;
  if (!cards.has(key)) {
    const layer = layers[l];
    const kind = layer.measures[h] ? layer.measures[h].kind : '';
    const card = el('button', {
      class: 'card', 'data-place': key,
      onclick: () => { update({ layer: l, head: h }); showHead(); },
    },
    el('canvas', { width: 1, height: 1, role: 'img', 'aria-hidden': 'true' }),
    el('span', { class: 'card-name' }),
    el('span', { class: 'card-value' }),
    el('span', { class: 'card-kind' }, kind || '\u00a0'));
    card.style.setProperty('--shape', layer.columns ? `${layer.T} / ${layer.S}` : `${layer.S} / ${layer.T}`);
    inView.observe(card);
    cards.set(key, card);
  }
  return cards.get(key);
}

const fadeHeads = fadeWhereCut($('heads'));
function drawHeads() {
  const list = sortedHeads();
  const measure = page.measures.find((one) => one.name === state.sort);
  $('measure').textContent = measure ? measure.text : '';
  const several = state.scope === 'all' && layers.length > 1;
  const rowed = several && state.sort === 'head', dense = rowed && list.length > 24;
  const shown = list.map(([l, h]) => {
    const card = cardOf(l, h), layer = layers[l];
    const chosen = l === state.layer && h === state.head;
    card.querySelector('.card-name').textContent = several ? shortName(layer, h) : `head ${layer.heads[h]}`;
    card.querySelector('.card-value').textContent = measure ? measureText(layer, h, state.sort) : '';
    card.title = dense ? `${headName(layer, h)}${layer.measures[h] ? `, ${layer.measures[h].kind}` : ''}` : '';
    if (dense) card.setAttribute('aria-label', card.title);
    else card.removeAttribute('aria-label');
    card.setAttribute('aria-pressed', chosen);
    card.tabIndex = chosen ? 0 : -1;
    drawCard(card);
    return card;
  });
  const grid = $('heads');
  grid.classList.toggle('many', list.length > 24); // they scroll by themselves, beside what is chosen
  grid.classList.toggle('by-layer', rowed);
  grid.classList.toggle('dense', dense);
  drawCount(list.length);
  drawScale();
  const children = rowed ? inRows(list, shown) : shown;
  if (children.length !== grid.children.length || children.some((one, i) => one !== grid.children[i])) {
    const focused = document.activeElement;
    grid.replaceChildren(...children);
    if (grid.contains(focused)) focused.focus({ preventScroll: true });
  }
  fadeHeads();
  const chosen = cards.get(`${state.layer} ${state.head}`);
  if (grid.contains(document.activeElement) && chosen) chosen.focus({ preventScroll: true });
  if (chosen && chosen !== revealed) revealCard(chosen);
}

/// The number of heads and of layers.
function drawCount(count) {
  const all = layers.reduce((total, layer) => total + layer.heads.length, 0);
  const items = layers.some((layer) => layer.id !== layers[0].id) ? 'layers' : 'items';
  $('heads-count').textContent = count < all ? `${count} of ${all}`
    : layers.length > 1 ? `${all} in ${layers.length} ${items}` : String(all);
}
/// "L3", "L3 B0": the title of a layer's row.
function rowTitle(layer) {
  return `${layer.id === '' ? '' : `L${layer.id}`}${layer.batch === undefined ? '' : ` B${layer.batch}`}`.trim();
}
/// Cards with their layer before each row, and the heads' numbers above the columns.
const rowNames = new Map();
function rowName(key, text) {
  if (!rowNames.has(key)) rowNames.set(key, el('span', { class: 'row-name' }));
  const name = rowNames.get(key);
  name.textContent = text;
  return name;
}
function inRows(list, shown) {
  const children = [], widest = Math.max(...layers.map((layer) => layer.heads.length));
  $('heads').style.setProperty('--columns', widest);
  let before = null, column = 0;
  list.forEach(([l, h], i) => {
    if (l !== before) {
      column = 0;
      before = l;
      const layer = layers[l];
      children.push(rowName(l, rowTitle(layer)));
    }
    shown[i].style.setProperty('--column', ++column + 1);
    children.push(shown[i]);
  });
  return children;
}

let revealed = null; // the card that was last brought into view
/// Scrolls the grid alone, so that the card is in it.
function revealCard(card) {
  const grid = $('heads'), box = grid.getBoundingClientRect(), own = card.getBoundingClientRect();
  if (own.height === 0) return; // not laid out yet
  revealed = card;
  if (own.top < box.top) grid.scrollTop -= box.top - own.top + 6;
  else if (own.bottom > box.bottom) grid.scrollTop += own.bottom - box.bottom + 6;
}

const still = window.matchMedia('(prefers-reduced-motion: reduce)');
function scrollTo(element) {
  element.scrollIntoView({ behavior: still.matches ? 'auto' : 'smooth', block: 'start' });
}
/// Of many heads the chosen one is far below its card: goes there, unless its maps are in view.
function showHead() {
  const { top } = $('head-section').getBoundingClientRect();
  if (top < 0 || top > window.innerHeight * 0.4) scrollTo($('head-section'));
}

/// The head before or after in the grid.
function stepHead(by) {
  const list = sortedHeads();
  const at = list.findIndex(([l, h]) => l === state.layer && h === state.head);
  const [layer, head] = list[Math.max(0, Math.min(list.length - 1, at + by))];
  update({ layer, head });
}
function stepLayer(by) {
  update({ layer: Math.max(0, Math.min(layers.length - 1, state.layer + by)) });
}
