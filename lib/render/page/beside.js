// A second head beside the chosen one: of this page, or of another page of `report` that is opened from
// disk. Positions are linked: what is under the pointer or pinned in one is marked in the other.

const beside = {
  run: null,   // what is opened: { title, layers, measures, chunks, unpacked }, or null
  layer: null, // places in the run's layers and the layer's heads; null: those of the chosen head
  head: null,
  matrix: new Matrix('beside-matrix', 'beside-cell', () => besideLayer()),
};
const maximalChunks = 1e5;

/// The pages that were opened, by name; the page itself is one.
const runs = new Map([['this', { title: page.title, layers, measures: page.measures }]]);

/// A page's text as a run. Throws for another text.
function readRun(text) {
  const data = /<script type="application\/json" id="data">([^<]*)<\/script>/.exec(text);
  if (!data) throw new Error('not a page of mha-inspect report');
  const run = JSON.parse(data[1]);
  const ok = Array.isArray(run.layers) && run.layers.length > 0 && Array.isArray(run.measures)
    && run.layers.every((layer) => Number.isInteger(layer.T) && Number.isInteger(layer.S) && layer.stages
      && layer.stages.weights && Array.isArray(layer.heads) && Array.isArray(layer.tokens));
  if (!ok) throw new Error('a page of another version');
  run.chunks = new Map();
  for (const [, number, base64] of text.matchAll(/<script type="text\/plain" id="chunk(\d+)">([^<]*)<\/script>/g)) {
    if (run.chunks.size > maximalChunks) throw new Error('too many parts');
    run.chunks.set(Number(number), base64);
  }
  run.unpacked = new Map();
  for (const layer of run.layers) layer.run = run;
  return run;
}

function besideLayer() {
  const list = beside.run.layers;
  if (beside.layer !== null) return list[beside.layer];
  const { id, batch } = layers[state.layer];
  return list.find((layer) => layer.id === id && layer.batch === batch) || list.find((layer) => layer.id === id)
    || list[Math.min(state.layer, list.length - 1)];
}
/// The place of the head among the layer's.
function besideHead() {
  const layer = besideLayer();
  if (beside.head !== null && beside.head < layer.heads.length) return beside.head;
  const at = layer.heads.indexOf(layers[state.layer].heads[state.head]);
  return Math.max(at, 0);
}

function setupBeside() {
  beside.matrix.setup();
  $('beside').addEventListener('change', (event) => {
    const chosen = event.target.value;
    if (chosen === 'open') {
      event.target.value = beside.run ? [...runs].find(([, run]) => run === beside.run)[0] : '';
      $('beside-file').click();
    } else showBeside(runs.get(chosen) || null);
  });
  $('beside-file').addEventListener('change', async (event) => {
    const [file] = event.target.files;
    event.target.value = '';
    if (!file) return;
    try {
      const run = readRun(await file.text());
      runs.set(`page ${runs.size}`, Object.assign(run, { file: file.name }));
      showBeside(run);
    } catch (error) {
      $('beside-note').textContent = `${file.name}: ${error.message}`;
    }
  });
  for (const [name, part] of [['beside-layer', 'layer'], ['beside-head', 'head']])
    $(name).addEventListener('change', (event) => {
      beside[part] = event.target.value === '' ? null : Number(event.target.value);
      if (part === 'layer') beside.head = null;
      drawBeside(true);
    });
}

function showBeside(run) {
  beside.run = run;
  beside.layer = beside.head = null;
  beside.matrix.head = beside.matrix.window = null;
  $('beside-note').textContent = '';
  $('views').classList.toggle('two', run !== null);
  $('beside-view').hidden = run === null;
  fillSelect($('beside'), [['', 'nothing'], ...[...runs].map(([name, one]) =>
    [name, one === runs.get('this') ? 'this page' : one.file]), ['open', 'another page …']],
  run ? [...runs].find(([, one]) => one === run)[0] : '');
  drawLines();
  matrix.draw(); // it has another width
  drawBeside(true);
}

/// `other`: it may be another head.
async function drawBeside(other) {
  if (beside.run === null) return;
  const layer = besideLayer(), head = besideHead(), wanted = { layer, head };
  const list = beside.run.layers;
  fillSelect($('beside-layer'), [['', 'the same'], ...list.map((one, l) => [l, layerTitle(one) || '–'])], beside.layer ?? '');
  fillSelect($('beside-head'), [['', 'the same'], ...layer.heads.map((number, h) => [h, number])], beside.head ?? '');
  $('beside-layer-field').hidden = list.length < 2;
  $('beside-title').textContent = `${headName(layer, head)}`;
  $('beside-of').textContent = beside.run === runs.get('this') ? '' : beside.run.title;
  if (other) {
    const stages = await loadHead(layer, head);
    if (beside.run === null || besideLayer() !== wanted.layer || besideHead() !== wanted.head) return;
    beside.matrix.head = stages;
    const own = queryLabels(layers[state.layer]) || [], its = queryLabels(layer) || [];
    $('beside-note').textContent = layer.T !== layers[state.layer].T || layer.S !== layers[state.layer].S
      ? `${layer.T} × ${layer.S} beside ${layers[state.layer].T} × ${layers[state.layer].S}: positions are counted from the start.`
      : own.some((label, i) => its[i] !== label) ? 'Another text: positions are linked, not tokens.' : '';
    matrix.draw();
  }
  beside.matrix.draw();
  document.documentElement.dataset.beside = `${list.indexOf(layer)} ${head}`; // for tests
}
