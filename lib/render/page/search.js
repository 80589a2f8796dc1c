// The search field: the tokens that hold some text, one after the other.

const search = { found: [], side: 'query' };

function setupSearch() {
  const field = $('search');
  field.addEventListener('input', () => findTokens(true));
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') stepFound(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape') {
      field.value = '';
      findTokens(false);
      field.blur();
    } else return;
    event.preventDefault();
  });
  $('search-field').hidden = !layers.some((layer) => queryLabels(layer) || keyLabels(layer));
}

/// Finds the field's text among the queries, or among the keys where queries have no labels. With
/// `go`, goes to the first from the chosen one on.
function findTokens(go) {
  const layer = layers[state.layer], text = $('search').value.toLowerCase();
  search.side = queryLabels(layer) ? 'query' : 'key';
  const labels = (search.side === 'query' ? queryLabels(layer) : keyLabels(layer)) || [];
  search.found = [];
  if (text !== '') labels.forEach((label, i) => { if (label.toLowerCase().includes(text)) search.found.push(i); });
  const at = state[search.side] ?? 0;
  if (go && search.found.length > 0) showFound(search.found.find((i) => i >= at) ?? search.found[0]);
  drawFound();
  drawLines();
}
function showFound(index) {
  update({ pin: search.side, [search.side]: index, ...(search.side === 'query' ? { key: null } : {}) });
}
function stepFound(by) {
  const { found, side } = search;
  if (found.length === 0) return;
  const at = found.indexOf(state[side]);
  showFound(found[at < 0 ? 0 : (at + by + found.length) % found.length]);
}
function drawFound() {
  const { found, side } = search, at = found.indexOf(state[side]);
  $('search-count').textContent = $('search').value === '' ? ''
    : found.length === 0 ? 'none' : at < 0 ? `${found.length}` : `${at + 1} of ${found.length}`;
}
const isFound = (side, index) => search.side === side && search.found.includes(index);
