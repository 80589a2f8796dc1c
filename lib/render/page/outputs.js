// What each head adds to the output at the chosen query.

function drawOutputs() {
  const layer = layers[state.layer], box = $('outputs'), q = state.query;
  box.hidden = layer.contributions.length === 0;
  if (box.hidden) return;
  const along = layer.outputNorm.length > 0;
  const values = layer.contributions.map((part) => (along ? part.share[q] : part.norm[q]));
  const means = layer.contributions.map((part) => mean(along ? part.share : part.norm));
  const every = values.concat(means).filter((value) => value !== null);
  const high = Math.max(1e-12, ...every), low = Math.min(0, ...every);
  const at = (value) => (100 * (value - low)) / (high - low);
  const shares = aligned(layer.contributions.map((part, h) => (along ? percent(values[h]) : '')));
  const lengths = aligned(layer.contributions.map((part) => rounded(part.norm[q], 3)));
  const rows = layer.contributions.map((part, h) => {
    const value = values[h];
    const bar = el('span', { class: 'bar-fill' });
    if (value !== null) {
      bar.style.left = `${at(Math.min(0, value))}%`;
      bar.style.width = `${at(Math.max(0, value)) - at(Math.min(0, value))}%`;
    }
    bar.style.background = headColor(layer.heads[h]);
    const tick = el('span', { class: 'tick' });
    tick.style.left = `${at(means[h] || 0)}%`;
    const zero = el('span', { class: 'zero' });
    zero.style.left = `${at(0)}%`;
    return el('tr', { class: h === state.head ? 'chosen' : '', onclick: () => update({ head: h }) },
      el('td', { class: 'key' }, `head ${layer.heads[h]}`),
      el('td', { class: 'bar-cell wide' }, zero, bar, tick),
      el('td', { class: 'figure' }, shares[h]),
      el('td', { class: 'figure' }, lengths[h]));
  });
  box.replaceChildren(
    el('h3', {}, 'Heads in the output ', el('span', { class: 'quiet' }, along
      ? 'each head’s share at this query, measured along the output; the tick is its mean over all queries'
      : 'the length of what each head adds at this query; the tick is its mean over all queries')),
    el('table', { class: 'keys' }, el('thead', {}, el('tr', {}, el('th', { class: 'key' }, 'head'), el('th', {}),
      el('th', { class: 'figure' }, along ? 'share' : ''), el('th', { class: 'figure' }, 'length'))),
    el('tbody', {}, ...rows)));
}
function mean(list) {
  const known = list.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}
