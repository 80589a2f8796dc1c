// Puts the parts together.

function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => el('option', { value: key }, text)));
  select.value = value;
}
function layerTitle(layer) {
  const words = layer.id === '' ? [] : [layer.id];
  if (layer.batch !== undefined) words.push(`item ${layer.batch}`);
  return words.join(' · ');
}

function setupControls() {
  $('title').textContent = page.title;
  fillSelect($('layer'), layers.map((layer, i) => [i, layerTitle(layer)]), state.layer);
  $('layer-field').hidden = $('scope-field').hidden = layers.length < 2;
  if (layers.every((layer) => layer.id === layers[0].id)) { // items of a batch
    $('layer-name').textContent = 'Item';
    fillSelect($('scope'), [['layer', 'this item'], ['all', 'all items']], state.scope);
  }
  fillSelect($('sort'), [['head', 'head']].concat(knownMeasures.map(({ name }) => [name, name.replaceAll('_', ' ')])), state.sort);
  for (const name of ['layer', 'scope', 'sort', 'colors', 'range', 'stage', 'zoom'])
    $(name).addEventListener('change', (event) => {
      const number = name === 'layer' || name === 'zoom';
      update({ [name]: number ? Number(event.target.value) : event.target.value });
    });
  $('order').addEventListener('click', () => update({ order: state.order === 'down' ? 'up' : 'down' }));
  $('theme').addEventListener('click', toggleTheme);
  $('help').addEventListener('click', toggleHelp);
  $('to-heads').addEventListener('click', () => scrollTo($('heads-section')));
  $('previous').addEventListener('click', () => stepHead(-1));
  $('next').addEventListener('click', () => stepHead(1));
  $('query-up').addEventListener('click', () => stepQuery(state.query - 1));
  $('query-down').addEventListener('click', () => stepQuery(state.query + 1));
  for (const { name, text } of page.kinds || [])
    $('kinds').append(el('dt', {}, name), el('dd', {}, text));
  document.addEventListener('keydown', onKey);
  watchTouch();
}

/// The mean weight on key 0 where it is more than a third of a long map's, or null.
function sinkOf(layer) {
  const shares = layer.heads.map((_, h) => measureOf(layer, h, 'first')).filter((share) => share !== null);
  const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
  return shares.length > 0 && layer.T > 16 && mean > 1 / 3 ? mean : null;
}

function drawControls() {
  const layer = layers[state.layer];
  const sink = sinkOf(layer);
  $('headline').textContent = sink === null ? layer.headline
    : `${layer.headline} · key 0 has ${Math.round(100 * sink)} % of the weight: a sink`;
  for (const name of ['layer', 'scope', 'sort', 'colors', 'range', 'zoom']) $(name).value = state[name];
  $('order').textContent = state.order === 'down' ? '↓' : '↑';
  $('order').setAttribute('aria-label', state.order === 'down' ? 'Largest first' : 'Smallest first');
  const maps = mapStages.filter((name) => layer.stages[name]);
  fillSelect($('stage'), maps.map((name) => [name, name]), state.stage);
  $('stage-field').hidden = maps.length < 2;
  $('zoom-field').hidden = Math.max(layer.T, layer.S) <= 64;
  const most = Math.max(layer.T, layer.S);
  fillSelect($('zoom'), zooms.filter((size) => size < most).map((size) =>
    [size, size === 0 ? 'whole' : `${size} tokens`]), state.zoom);
  const name = headName(layer, state.head);
  const swatch = el('span', { class: 'swatch' });
  swatch.style.background = headColor(layer.heads[state.head]);
  $('head-title').replaceChildren(swatch, name[0].toUpperCase() + name.slice(1));
  const facts = layer.measures[state.head];
  const words = facts && facts.kind ? [facts.kind] : [];
  for (const one of ['entropy', 'effective_keys', 'first', 'previous', 'self', 'induction']) {
    if (measureOf(layer, state.head, one) !== null)
      words.push(`${one.replaceAll('_', ' ')} ${measureText(layer, state.head, one)}`);
  }
  $('matrix-axes').textContent = layer.columns ? 'one row per key, one column per query' : 'one row per query, one column per key';
  $('head-facts').textContent = words.join(' · ');
  $('query-title').textContent = `Query ${named(state.query, queryLabels(layer))}`;
  $('footer').textContent = `${accuracy(layer)} Made by ${page.program}.`;
}
/// The exactness of the page's numbers.
function accuracy(layer) {
  const { weights, ...others } = layer.stages;
  const words = [{
    exact: `Weights are exact (${layer.dtype}): what mha-inspect show prints.`,
    rounded: 'Weights are rounded to 16 bits: within 1/65532 of the largest of their row.',
    largest: `Of each query the ${weights.kept} largest weights are exact, the others are not in the page; ` +
      'the whole map shows the largest weight of each of its pools of queries and keys.',
  }[weights.form]];
  if (weights.form === 'exact' && Object.values(others).some((stage) => stage.form === 'rounded'))
    words.push('The other stages are rounded to 16 bits between a row’s smallest and largest number.');
  return words.join(' ');
}

let current = null; // the head whose stages are shown
async function drawHead(names) {
  const layer = layers[state.layer], { head } = state;
  const wanted = `${state.layer} ${head}`;
  const numbers = [layer.heads[head], ...alsoHeads()];
  const [stages, ...rows] = await Promise.all([loadHead(layer, head),
    ...numbers.map((number) => load(layer, 'weights', layer.heads.indexOf(number)))]);
  if (wanted !== `${state.layer} ${state.head}`) return; // another one was chosen meanwhile
  const other = current !== wanted;
  current = wanted;
  lines.heads = numbers.map((number, i) => ({ number, rows: rows[i] }));
  matrix.head = stages;
  if (state.pin && (other || names.has('query') || names.has('pin') || names.has('key'))) revealToken();
  drawSwatches();
  drawLines();
  if (other || ['query', 'key', 'pin', 'stage', 'zoom', 'colors', 'theme', 'size'].some((name) => names.has(name))) {
    matrix.draw();
    drawBeside(other);
  }
  drawSteps(stages);
  drawOutputs();
  document.documentElement.dataset.ready = wanted;
}

function draw(names) {
  if (names.has('theme')) applyTheme();
  drawControls();
  drawGrid(names);
  drawHeads();
  if (names.has('layer')) findTokens(false);
  drawFound();
  drawExperts();
  drawHead(names);
}

function start() {
  const long = Math.max(layers[0].T, layers[0].S) > 128; // most weights are small there
  Object.assign(initial, state, { query: layers[0].T - 1, colors: long ? 'log' : 'linear', grid: firstMeasure() });
  Object.assign(state, readAddress());
  fit();
  setupControls();
  setupGrid();
  setupLines();
  matrix.setup();
  setupBeside();
  setupExperts();
  setupSearch();
  setupSaving();
  showBeside(null);
  watch(draw);
  watchHover(() => {
    drawLines();
    matrix.drawMarks();
    beside.matrix.drawMarks();
  });
  let width = window.innerWidth;
  window.addEventListener('resize', () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    draw(new Set(['size']));
  });
  window.addEventListener('hashchange', () => update(readAddress()));
  darkSystem.addEventListener('change', () => draw(new Set(['theme'])));
  draw(new Set(['theme', 'grid']));
  writeAddress();
}
start();
