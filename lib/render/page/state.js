// The state of the view. The address has it after the #, so that a view can be linked.

const state = {
  layer: 0,       // place in `layers`
  head: 0,        // place in the layer's heads
  query: 0,
  key: null,      // of the cell that was chosen
  pin: null,      // 'query', 'key' or null
  grid: '',       // the measure that layers × heads are coloured by
  sort: 'head',
  order: 'down',  // largest first
  scope: 'layer', // or 'all'
  also: '',       // other heads whose lines are drawn, by their numbers: "1,3"
  colors: 'linear',
  range: 'common', // of the small maps' colours, or 'own'
  stage: 'weights',
  zoom: 0,        // tokens that the matrix shows; 0: all
  theme: 'auto',
};
const initial = {};
const mapStages = ['weights', 'masked', 'scores']; // what the matrix can show
const watchers = [];
/// Called with what changed, once a frame.
function watch(watcher) {
  watchers.push(watcher);
}

let pending = null;
function update(changes) {
  const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
  if (changed.length === 0) return;
  Object.assign(state, changes);
  fit();
  if (!pending) {
    pending = new Set();
    requestAnimationFrame(() => {
      const names = pending;
      pending = null;
      writeAddress();
      for (const watcher of watchers) watcher(names);
    });
  }
  for (const name of changed) pending.add(name);
}

/// Every number within what there is.
function fit() {
  const clamp = (value, count) => Math.max(0, Math.min(count - 1, Math.trunc(value) || 0));
  state.layer = clamp(state.layer, layers.length);
  const layer = layers[state.layer];
  state.head = clamp(state.head, layer.heads.length);
  state.query = clamp(state.query, layer.T);
  if (state.key !== null) state.key = clamp(state.key, layer.S);
  if (state.pin === 'key' && state.key === null) state.pin = null;
  state.also = alsoHeads().join(',');
  if (!mapStages.includes(state.stage) || !layer.stages[state.stage]) state.stage = 'weights';
}

/// The numbers of the other heads whose lines are drawn.
function alsoHeads() {
  const layer = layers[state.layer];
  return state.also.split(',').filter((text) => text !== '').map(Number)
    .filter((number) => layer.heads.includes(number) && number !== layer.heads[state.head]);
}

const allowed = {
  pin: [null, 'query', 'key'], order: ['down', 'up'], scope: ['layer', 'all'],
  colors: ['linear', 'log'], range: ['common', 'own'], theme: ['auto', 'light', 'dark'],
};
/// Layers and heads are named in the address, not counted: a link survives another selection.
function readAddress() {
  const wanted = { ...initial };
  const read = new URLSearchParams(location.hash.slice(1));
  for (const [name, text] of read) {
    if (!(name in state) || name === 'layer' || name === 'head') continue;
    if (allowed[name]) {
      if (allowed[name].includes(text)) wanted[name] = text;
    } else if (name === 'sort' || name === 'stage' || name === 'also' || name === 'grid') {
      wanted[name] = text;
    } else if (/^\d+$/.test(text)) {
      wanted[name] = Number(text);
    }
  }
  if (wanted.sort !== 'head' && !page.measures.some((measure) => measure.name === wanted.sort))
    wanted.sort = 'head';
  if (!knownMeasures.some((measure) => measure.name === wanted.grid)) wanted.grid = initial.grid;
  const item = read.get('item');
  const found = layers.findIndex((layer) =>
    layer.id === (read.get('layer') ?? layer.id) &&
    (item === null || String(layer.batch) === item));
  wanted.layer = Math.max(found, 0);
  wanted.head = Math.max(layers[wanted.layer].heads.indexOf(Number(read.get('head'))), 0);
  return wanted;
}
function address() {
  const layer = layers[state.layer];
  const words = new URLSearchParams();
  if (layers.length > 1) words.set('layer', layer.id);
  if (layer.batch !== undefined) words.set('item', layer.batch);
  words.set('head', layer.heads[state.head]);
  words.set('query', state.query);
  for (const name of Object.keys(state))
    if (!words.has(name) && name !== 'layer' && state[name] !== initial[name] && state[name] !== null)
      words.set(name, state[name]);
  return `#${words}`;
}
function writeAddress() {
  if (location.hash !== address()) history.replaceState(null, '', address());
}

/// What the pointer is on: { query }, { key }, both, or nothing. Not in the address.
let hover = {};
const hoverWatchers = [];
function watchHover(watcher) {
  hoverWatchers.push(watcher);
}
function setHover(next) {
  if (touching) next = {}; // a finger does not hover
  if (hover.query === next.query && hover.key === next.key) return;
  hover = next;
  for (const watcher of hoverWatchers) watcher();
}
/// The query or key that lines are shown of: under the pointer, else pinned, else none.
function focus() {
  if (hover.query !== undefined) return { query: hover.query };
  if (hover.key !== undefined) return { key: hover.key };
  if (state.pin === 'query') return { query: state.query };
  if (state.pin === 'key') return { key: state.key };
  return {};
}
