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

/// Draws rows into a small canvas: a pixel a cell, or the largest of the cells of a pixel.
function drawSmall(canvas, layer, rows, hidden, log) {
  const most = 128;
  const height = Math.min(rows.rows, most), width = Math.min(rows.cols, most);
  const { high } = rows.range();
  const paint = painter({ low: 0, high, log });
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
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
  context.putImageData(image, 0, 0);
}

/// Small maps are drawn when they come into view, and again when the colours change.
const inView = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    entry.target.dataset.seen = entry.isIntersecting ? 'yes' : '';
    if (entry.isIntersecting) drawCard(entry.target);
  }
}, { rootMargin: '200px' });
async function drawCard(card) {
  if (card.dataset.drawn === state.colors || card.dataset.seen !== 'yes') return;
  card.dataset.drawn = state.colors;
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
    card.style.setProperty('--shape', `${layer.S} / ${layer.T}`);
    inView.observe(card);
    cards.set(key, card);
  }
  return cards.get(key);
}

function drawHeads() {
  const list = sortedHeads();
  const measure = page.measures.find((one) => one.name === state.sort);
  $('measure').textContent = measure ? measure.text : '';
  const several = state.scope === 'all' && layers.length > 1;
  const shown = list.map(([l, h]) => {
    const card = cardOf(l, h), layer = layers[l];
    const chosen = l === state.layer && h === state.head;
    card.querySelector('.card-name').textContent = several ? shortName(layer, h) : `head ${layer.heads[h]}`;
    const value = measure ? measureOf(layer, h, state.sort) : null;
    card.querySelector('.card-value').textContent =
      !measure ? '' : value === null ? '–' : measure.count ? String(value) : rounded(value, 3);
    card.setAttribute('aria-pressed', chosen);
    card.tabIndex = chosen ? 0 : -1;
    drawCard(card);
    return card;
  });
  const grid = $('heads');
  grid.classList.toggle('many', list.length > 24); // they scroll by themselves, beside what is chosen
  if (shown.length !== grid.children.length || shown.some((card, i) => card !== grid.children[i])) {
    const focused = document.activeElement;
    grid.replaceChildren(...shown);
    if (grid.contains(focused)) focused.focus({ preventScroll: true });
  }
  const chosen = cards.get(`${state.layer} ${state.head}`);
  if (grid.contains(document.activeElement) && chosen) chosen.focus({ preventScroll: true });
  if (chosen && chosen !== revealed) revealCard(chosen);
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
