// The keyboard.

function stepQuery(to) {
  update({ query: to, pin: 'query', key: null });
}
function stepKey(by) {
  const layer = layers[state.layer];
  const next = state.key === null ? (by > 0 ? 0 : layer.S - 1) : state.key + by;
  update({ key: Math.max(0, Math.min(layer.S - 1, next)), pin: 'query' });
}
function toggleHelp() {
  const help = $('help-text');
  if (help.open) help.close();
  else help.showModal();
}

const actions = {
  ArrowLeft: () => stepHead(-1),
  ArrowRight: () => stepHead(1),
  ArrowUp: () => stepQuery(state.query - (state.pin === 'query' ? 1 : 0)),
  ArrowDown: () => stepQuery(state.query + (state.pin === 'query' ? 1 : 0)),
  Home: () => stepQuery(0),
  End: () => stepQuery(layers[state.layer].T - 1),
  '[': () => stepLayer(-1),
  ']': () => stepLayer(1),
  Escape: () => update({ pin: null, key: null }),
  t: toggleTheme,
  '/': () => $('search').focus(),
  '?': toggleHelp,
};
const shiftActions = { ArrowLeft: () => stepKey(-1), ArrowRight: () => stepKey(1) };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if ($('help-text').open && event.key !== '?') return; // Escape closes it by itself
  if (event.target.matches('select, input, textarea')) return;
  const action = (event.shiftKey && shiftActions[event.key]) || actions[event.key];
  if (!action) return;
  event.preventDefault();
  setHover({});
  hideTip();
  action();
}
