// Layers × heads: one cell per head, coloured by a measure; the chosen head's map beside it.

const cells = new Map(); // "layer head" → its button

/// The measures that some head has a number for.
const knownMeasures = page.measures.filter((measure) =>
  layers.some((layer) => layer.heads.some((_, h) => measureOf(layer, h, measure.name) !== null)));
/// A score of fewer rows is not significant: it determines no kind.
const fewRows = 6;
/// Whether a measure has a number, of enough rows, for most heads.
function isInformative(name) {
  const measured = layers.flatMap((layer) => layer.heads.map((_, h) => measureOf(layer, h, name) !== null
    && (measureOf(layer, h, `${name}_rows`) ?? fewRows) >= fewRows));
  return measured.filter((one) => one).length * 2 > measured.length;
}
/// The measure that colours the grid by default.
function firstMeasure() {
  const known = knownMeasures.map(({ name }) => name);
  return ['induction', 'entropy_share', ...known].find((name) => known.includes(name) && isInformative(name))
    || known[0] || '';
}

/// The colours of a measure: from 0, or to both sides of it.
function gridPainter() {
  const values = [];
  for (const layer of layers)
    layer.heads.forEach((_, h) => {
      const value = measureOf(layer, h, state.grid);
      if (value !== null) values.push(value);
    });
  const low = Math.min(0, ...values), high = Math.max(...values);
  return low < 0 ? painter({ low, high: Math.max(high, -low), signed: true })
    : painter({ low: 0, high: high > 0 ? high : 1 });
}

const isGridShown = () => layers.length > 1 && knownMeasures.length > 0;
function setupGrid() {
  $('grid-section').hidden = !isGridShown();
  if (!isGridShown()) return;
  fillSelect($('grid-measure'), knownMeasures.map(({ name }) => [name, name.replaceAll('_', ' ')]), state.grid);
  $('grid-measure').addEventListener('change', (event) => update({ grid: event.target.value }));
  $('grid-open').addEventListener('click', () => scrollTo($('head-section')));
  const widest = Math.max(...layers.map((layer) => layer.heads.length));
  const box = $('grid'), children = [];
  box.style.setProperty('--columns', widest);
  const every = widest > 16 ? 4 : 1;
  children.push(el('span', { class: 'grid-corner' }));
  for (let h = 0; h < widest; ++h)
    children.push(el('span', { class: 'grid-title' }, h % every === 0 ? String(layers[0].heads[h] ?? h) : ''));
  layers.forEach((layer, l) => {
    children.push(el('span', { class: 'grid-row' }, rowTitle(layer)));
    layer.heads.forEach((_, h) => {
      const cell = el('button', { class: 'grid-cell', 'data-place': `${l} ${h}`, onclick: () => update({ layer: l, head: h }) });
      if (h === 0) cell.style.gridColumn = 2;
      cells.set(`${l} ${h}`, cell);
      children.push(cell);
    });
  });
  box.replaceChildren(...children);
  fadeWhereCut(box);
}

/// A measure of a head as text, with its number of rows where they are few.
function measureText(layer, h, name) {
  const value = measureOf(layer, h, name), measure = page.measures.find((one) => one.name === name);
  if (value === null) return '–';
  const rows = measureOf(layer, h, `${name}_rows`);
  const basis = rows !== null && rows < fewRows ? ` (of ${rows} ${rows === 1 ? 'row' : 'rows'})` : '';
  return (measure.count ? String(value) : rounded(value, 3)) + basis;
}

/// `names`: what has changed.
function drawGrid(names) {
  if (!isGridShown()) return;
  const paint = gridPainter(), chosen = `${state.layer} ${state.head}`;
  const measure = page.measures.find((one) => one.name === state.grid);
  $('grid-measure').value = state.grid;
  const gaps = layers.some((layer) => layer.heads.some((_, h) => measureOf(layer, h, state.grid) === null));
  $('grid-note').textContent = measure ? `${measure.text}${gaps ? '; grey: no row to measure' : ''}` : '';
  if (['grid', 'theme'].some((name) => names.has(name)))
    for (const [place, cell] of cells) {
      const [l, h] = place.split(' ').map(Number);
      const value = measureOf(layers[l], h, state.grid);
      cell.style.background = value === null ? 'var(--hidden)' : paint.css(value);
      cell.title = `${headName(layers[l], h)}: ${state.grid.replaceAll('_', ' ')} ${measureText(layers[l], h, state.grid)}`;
      cell.setAttribute('aria-label', cell.title);
    }
  for (const [place, cell] of cells) {
    cell.setAttribute('aria-pressed', place === chosen);
    cell.tabIndex = place === chosen ? 0 : -1;
  }
  const low = paint.signed ? -paint.high : 0;
  drawBar($('grid-bar'), paint);
  $('grid-low').textContent = rounded(low, 3);
  $('grid-high').textContent = rounded(paint.high, 3);
  drawGridHead(chosen);
}

/// The chosen head's small map, large.
async function drawGridHead(chosen) {
  const layer = layers[state.layer], h = state.head;
  const facts = layer.measures[h];
  const name = headName(layer, h);
  $('grid-head-name').textContent = name[0].toUpperCase() + name.slice(1);
  $('grid-head-facts').textContent = [facts && facts.kind ? facts.kind : '',
    `${state.grid.replaceAll('_', ' ')} ${measureText(layer, h, state.grid)}`].filter((word) => word).join(' · ');
  const [weights, hidden] = await Promise.all(
    [layer.stages.pooled ? 'pooled' : 'weights', 'hidden'].map((one) => load(layer, one, h)));
  if (chosen !== `${state.layer} ${state.head}`) return; // another one was chosen meanwhile
  const canvas = $('grid-map');
  drawSmall(canvas, layer, weights, hidden, state.colors === 'log');
  canvas.dataset.place = chosen;
}

/// The grid as a picture: cells, the numbers of layers and heads, and what the colours mean.
function gridPicture() {
  const widest = Math.max(...layers.map((layer) => layer.heads.length));
  const size = widest > 16 ? 18 : 26, left = 34, top = 40;
  const width = Math.max(left + size * widest + 12, 260), height = top + size * layers.length + 44;
  return { name: `grid-${state.grid}`, width, height, paint(context) {
    const paint = gridPainter(), family = getComputedStyle(document.body).fontFamily;
    context.fillStyle = themed('--ink');
    context.font = `12px ${family}`;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.fillText(`${page.title} · ${state.grid.replaceAll('_', ' ')}`, 6, 10);
    context.fillStyle = themed('--quiet');
    context.font = `10px ${family}`;
    layers.forEach((layer, l) => {
      context.textAlign = 'right';
      context.fillStyle = themed('--quiet');
      context.fillText(rowTitle(layer), left - 6, top + (l + 0.5) * size);
      layer.heads.forEach((number, h) => {
        const value = measureOf(layer, h, state.grid);
        context.fillStyle = value === null ? themed('--hidden') : paint.css(value);
        context.fillRect(left + h * size, top + l * size, size - 1, size - 1);
        if (l > 0 || (widest > 16 && h % 4 !== 0)) return;
        context.fillStyle = themed('--quiet');
        context.textAlign = 'center';
        context.fillText(String(number), left + (h + 0.5) * size, top - 8);
      });
    });
    drawLegend(context, paint, left, top + size * layers.length + 12, Math.min(size * widest, 200));
  } };
}
