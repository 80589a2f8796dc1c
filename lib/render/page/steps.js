// One query of one head, step by step with its numbers, like `explain`.

const fewKeys = 10;
let allKeys = false;

/// A vector as a strip of colours, its numbers under the pointer.
function strip(values, dtype, name, high) {
  const most = high || largestOf(values);
  const paint = painter({ high: most, signed: true });
  const canvas = el('canvas', { class: 'strip', role: 'img',
    'aria-label': `${name}: ${Array.from(values.slice(0, 8), (value) => rounded(value, 3)).join(', ')}${values.length > 8 ? ' …' : ''}` });
  canvas.width = values.length;
  canvas.height = 1;
  const context = canvas.getContext('2d');
  values.forEach((value, i) => {
    context.fillStyle = paint.css(value);
    context.fillRect(i, 0, 1, 1);
  });
  canvas.addEventListener('mousemove', (event) => {
    const box = canvas.getBoundingClientRect();
    const i = Math.max(0, Math.min(values.length - 1,
      Math.floor(((event.clientX - box.left) / box.width) * values.length)));
    showTip(event, [dtype ? exact(values[i], dtype) : `≈ ${rounded(values[i], 4)}`, `${name}[${i}]`]);
  });
  canvas.addEventListener('mouseleave', hideTip);
  return canvas;
}
/// The first numbers of a vector, each in a column of its own.
function numbersOf(values, high) {
  const most = 12, write = evenly(high);
  const cells = Array.from(values.slice(0, most), (value) => el('span', { class: 'cell' }, write(value)));
  return values.length > most ? [...cells, '\u2002…'] : cells;
}
function largestOf(values) {
  return values.reduce((large, value) => Math.max(large, Math.abs(value)), 0);
}
function norm(values) {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
}
function step(number, title, formula, ...content) {
  return el('div', { class: 'step' },
    el('h3', {}, el('span', { class: 'step-number' }, String(number)), title,
      el('span', { class: 'formula' }, formula)),
    ...content);
}
function vectorRow(name, values, dtype, high) {
  return el('div', { class: 'vector' }, el('span', { class: 'vector-name' }, name),
    strip(values, dtype, name, high),
    el('span', { class: 'vector-numbers' }, ...numbersOf(values, high || largestOf(values))),
    el('span', { class: 'vector-norm' }, `length ${rounded(norm(values), 3)}`));
}
const typeOf = (rows) => (rows.exact ? rows.dtype : null);

const temperatureOf = (layer, query) => (layer.temperatures ? layer.temperatures[query] : 1);

/// The numbers of one key, as far as the page has them.
function keyNumbers(layer, head, query, key) {
  const scale = layer.scale * temperatureOf(layer, query);
  const value = { key, weight: head.weights.at(query, key), hidden: isHidden(layer, head.hidden, query, key) };
  if (head.masked) value.masked = head.masked.at(query, key);
  if (value.hidden) return value;
  if (head.scores) value.score = head.scores.at(query, key);
  else if (head.masked) value.score = value.masked / scale; // no step is between them
  else if (head.q && head.k) value.score = dot(head.q.row(query), head.k.row(key));
  if (value.score !== undefined) value.scaled = value.score * scale;
  return value;
}

function drawSteps(head) {
  const layer = layers[state.layer], q = state.query, labels = keyLabels(layer);
  const box = $('steps');
  const keys = Array.from({ length: layer.S }, (_, key) => keyNumbers(layer, head, q, key));
  const known = (one) => !one.hidden && (!head.weights.kept || head.weights.place(q, one.key) >= 0);
  const order = keys.filter(known).sort((a, b) => b.weight - a.weight || a.key - b.key);
  const hiddenKeys = keys.filter((one) => one.hidden), absent = layer.S - hiddenKeys.length - order.length;
  let number = 0;
  const parts = [];

  if (head.q) {
    const { stage, given } = layer.stages.q;
    const formula = { q: `q = ${product(layer, 'x', 'W_q')}${layer.biased ? ' + b_q' : ''}`, q_norm: 'q_norm: q, normalised', q_rope: 'q_rope: q, rotated to its position' }[stage];
    parts.push(step(++number, 'The query', given ? `${stage}, as given` : formula,
      vectorRow(stage, head.q.row(q), typeOf(head.q))));
  }
  const listed = allKeys ? order.slice() : order.slice(0, fewKeys);
  const chosen = order.find((one) => one.key === state.key);
  if (chosen && !listed.includes(chosen)) listed.push(chosen);
  parts.push(step(++number, head.masked || head.scores || head.q ? 'Compare with the keys' : 'Weights', compareFormula(layer, head, q), keyTable(head, listed, order, hiddenKeys, absent, labels)));
  if (head.v) parts.push(step(++number, 'Weigh the values', layer.columns ? 'head_out = Σ v α' : 'head_out = Σ α v', valueRows(head, listed, order, absent, labels, q)));
  else if (head.head_out) parts.push(step(++number, 'The head’s output', 'head_out', vectorRow('head_out', head.head_out.row(q), typeOf(head.head_out))));
  const sentence = contributionSentence(layer, q);
  if (sentence) parts.push(step(++number, ...(layer.projects ? ['Project to the output', layer.result]
    : ['Join the heads', `there is no W_o: the head keeps its ${layer.columns ? 'rows' : 'columns'} of the output`]), el('p', {}, sentence)));
  box.replaceChildren(...parts);
}

/// W x where tokens are columns, else x W.
const product = (layer, x, W) => (layer.columns ? `${W} ${x}` : `${x} ${W}`);
const dotName = (layer) => (layer.columns ? 'k·q' : 'q·k');
function compareFormula(layer, head, query) {
  if (!head.masked && !head.scores && !head.q) return 'α, the largest first';
  const cap = layer.softcap ? `, capped at ${layer.softcap}` : '';
  const warm = layer.temperatures ? ` · ${rounded(temperatureOf(layer, query))}` : '';
  return `scaled = ${rounded(layer.scale)}${warm} · ${dotName(layer)}${cap}, α = softmax(masked)`;
}

/// What is known of keys, as columns: [name, title].
function keyColumns(keys) {
  const has = ([name]) => name === 'key' || keys.some((one) => one[name] !== undefined);
  return [['key', 'key'], ['score', dotName(layers[state.layer])], ['scaled', 'scaled'], ['masked', 'masked'], ['weight', 'α']].filter(has);
}
function figureOf(one, name) {
  return name === 'weight' ? fixed(one.weight) : one[name] === undefined ? '' : rounded(one[name]);
}
/// α and its bar stay in view where the others do not fit.
const figureClass = (name) => (name === 'weight' ? 'figure alpha' : 'figure');
/// The texts of all rows, column by column, with their decimal points aligned.
function figures(list, columns) {
  const texts = columns.map(([name]) => (name === 'key' ? [] : aligned(list.map((one) => figureOf(one, name)))));
  return (row, column) => texts[column][row];
}
function keyRow(one, columns, labels, figure) {
  const cell = ([name], column) => (name === 'key'
    ? el('td', { class: 'key' }, el('span', { class: 'number' }, String(one.key)),
      labels ? el('bdi', {}, labels[one.key]) : null)
    : el('td', { class: figureClass(name) }, figure(column)));
  return el('tr', {
    class: one.key === state.key ? 'chosen' : one.hidden ? 'quiet' : '',
    onclick: () => update({ pin: 'query', key: state.key === one.key ? null : one.key }),
    onmouseenter: () => setHover({ query: state.query, key: one.key }),
    onmouseleave: () => setHover({}),
  }, ...columns.map(cell), el('td', { class: 'bar-cell' }, barOf(one.weight)));
}
/// The keys that are not listed, summed up; and the button that lists them, or no longer.
function keyFoot(head, rest, columns) {
  const toggle = el('button', { class: 'link', onclick: () => { allKeys = !allKeys; drawSteps(head); } },
    allKeys ? 'show fewer' : 'show all');
  if (rest.length === 0) return allKeys ? el('tr', {}, el('td', { colspan: columns.length + 1 }, toggle)) : null;
  return sumRow(columns, rest.reduce((total, one) => total + one.weight, 0), `${keysOf(rest.length)} `, toggle);
}
const keysOf = (count) => `${count} more key${count === 1 ? '' : 's'}`;
function sumRow(columns, sum, ...words) {
  return el('tr', {},
    el('td', { class: 'key', colspan: columns.length - 1 }, ...words),
    el('td', { class: figureClass('weight') }, sum === null ? '' : fixed(sum)),
    el('td', { class: 'bar-cell' }, sum === null ? null : barOf(sum)));
}
/// The keys whose weights are not in the page; with them the row adds up to 1, unless a sink takes
/// its part.
function absentRow(layer, columns, order, absent) {
  if (absent === 0) return null;
  const sum = order.reduce((total, one) => total + one.weight, 0);
  return sumRow(columns, layer.sinks ? null : Math.max(0, 1 - sum), `${keysOf(absent)}, not in this page`);
}
function keyTable(head, listed, order, hiddenKeys, absent, labels) {
  const columns = keyColumns(order);
  const rest = order.filter((one) => !listed.includes(one));
  const notes = [];
  if (head.weights.kept) notes.push(`The page holds the ${head.weights.kept} largest weights of each query.`);
  if (hiddenKeys.length > 0 && !allKeys)
    notes.push(`${hiddenKeys.length} key${hiddenKeys.length === 1 ? ' is' : 's are'} hidden by the mask.`);
  const product = state.key !== null && head.q && head.k ? dotText(head, state.query, state.key) : null;
  const all = listed.concat(allKeys ? hiddenKeys : []), texts = figures(all, columns);
  const title = ([name, text]) => el('th', { class: name === 'key' ? 'key' : figureClass(name) }, text);
  return el('div', {},
    el('div', { class: 'scroll' }, el('table', { class: 'keys' },
      el('thead', {}, el('tr', {}, ...columns.map(title), el('th', { class: 'bar-cell' }))),
      el('tbody', {}, ...all.map((one, row) => keyRow(one, columns, labels, (column) => texts(row, column)))),
      el('tfoot', {}, keyFoot(head, rest, columns), absentRow(layers[state.layer], columns, order, absent)))),
    product ? el('p', { class: 'arithmetic' }, product) : null,
    notes.length > 0 ? el('p', { class: 'quiet' }, notes.join(' ')) : null);
}
function barOf(share) {
  const bar = el('span', { class: 'bar-fill' });
  bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  bar.style.background = headColor(layers[state.layer].heads[state.head]);
  return bar;
}

/// "q·k of key 2: 0.31·1.20 + … = 4.12".
function dotText(head, query, key) {
  const a = head.q.row(query), b = head.k.row(key);
  const few = 6;
  const terms = Array.from(a.slice(0, few), (value, i) => `${rounded(value, 3)}·${rounded(b[i], 3)}`);
  const more = a.length > few ? ` + … ${a.length - few} more` : '';
  return `${dotName(layers[state.layer])} of key ${key}: ${terms.join(' + ')}${more} = ${rounded(dot(a, b))}`;
}
const dot = (a, b) => a.reduce((total, value, i) => total + value * b[i], 0);

function valueRows(head, listed, order, absent, labels, q) {
  const list = listed.slice(0, 6);
  const parts = list.map((one) => ({ one, values: head.v.row(one.key).map((value) => value * one.weight) }));
  const out = head.head_out ? head.head_out.row(q) : summed(head, order);
  const all = parts.map((part) => part.values).concat(out ? [out] : []);
  const high = Math.max(...all.map(largestOf));
  const rows = parts.map(({ one, values }) => vectorRow(
    `${fixed(one.weight, 3)} · v of ${named(one.key, labels)}`, values, null, high));
  const more = order.length + absent - list.length;
  if (more > 0) rows.push(el('div', { class: 'vector quiet' }, `… ${keysOf(more)}`));
  if (!out) rows.push(el('p', { class: 'quiet' }, 'head_out is also made of keys that are not in this page.'));
  if (out) {
    const row = vectorRow('head_out', out, head.head_out ? typeOf(head.head_out) : null, high);
    row.classList.add('total');
    rows.push(row);
  }
  return el('div', { class: 'vectors' }, ...rows);
}

/// Σ α v, where the page does not hold head_out; nothing where it lacks some of the weights.
function summed(head, order) {
  if (head.weights.kept) return null;
  const out = new Float64Array(head.v.cols);
  for (const { key, weight } of order) {
    const values = head.v.row(key);
    for (let i = 0; i < out.length; ++i) out[i] += weight * values[i];
  }
  return out;
}

function contributionSentence(layer, q) {
  const part = layer.contributions[state.head];
  if (!part) return null;
  const length = `Head ${layer.heads[state.head]} adds a vector of length ${rounded(part.norm[q], 3)}`;
  const whole = layer.outputNorm[q], share = part.share.length > 0 ? part.share[q] : null;
  if (whole === undefined || share === null) return `${length}.`;
  return `${length} to an output of length ${rounded(whole, 3)}: ${percent(share)} of it, measured along the output.`;
}
