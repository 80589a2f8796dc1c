// A column of tokens that builds only what is in view.

/// The text of a weight beside its token, with fewer digits if several heads have one there.
const fewHeads = 2;
function shortWeight(value, heads) {
  if (value < (heads <= fewHeads ? 0.0005 : 0.005)) return '';
  if (heads <= fewHeads || value !== value) return fixed(value, 3);
  return value >= 0.995 ? '1.0' : fixed(value, 2).replace(/^0\./, '.');
}

/// The height of a row: small enough to show all tokens at once while these stay readable.
function rowHeight(tokens) {
  return Math.max(12, Math.min(22, Math.floor(780 / tokens)));
}

/// `side` is 'query' or 'key'. place(first, last, top) shows the rows first … last.
class TokenColumn {
  constructor(side) {
    this.side = side;
    this.element = el('div', {
      class: `tokens ${side}`,
      onmousemove: (event) => this.onmove(event),
      onmouseleave: () => setHover({}),
      onclick: (event) => this.onclick(event),
    });
    this.pool = [];
  }
  indexOf(event) {
    const token = event.target.closest('[data-index]');
    return token ? Number(token.dataset.index) : null;
  }
  onmove(event) {
    const index = this.indexOf(event);
    if (index !== null) setHover({ [this.side]: index });
  }
  onclick(event) {
    const index = this.indexOf(event);
    if (index === null) return;
    const same = state.pin === this.side && state[this.side] === index;
    if (same) setHover({});
    update(same ? { pin: null } : { pin: this.side, [this.side]: index });
  }
  /// marks(index) → { strength 0 … 1 or null, values: [], strong, dim }; `heads` are { number,
  /// color } of the values, one text each.
  show(labels, first, last, height, marks, color, heads) {
    while (this.pool.length < last - first)
      this.pool.push(el('div', { class: 'token' }, el('span', { class: 'number' }), el('bdi'),
        el('span', { class: 'weights' })));
    const several = heads.length > 1;
    this.element.classList.toggle('several', several);
    const rows = [];
    for (let i = first; i < last; ++i) {
      const row = this.pool[i - first];
      const [number, label, weights] = row.children;
      const mark = marks(i);
      row.dataset.index = i;
      row.style.top = `${i * height}px`;
      row.style.height = `${height}px`;
      row.style.fontSize = `${Math.min(13, height - 2)}px`;
      number.textContent = i;
      label.textContent = labels ? labels[i] : '';
      while (weights.children.length > heads.length) weights.lastChild.remove();
      while (weights.children.length < heads.length) weights.append(el('span', { class: 'weight' }));
      heads.forEach((head, h) => {
        const value = mark.values[h], cell = weights.children[h];
        cell.textContent = value === null ? '' : shortWeight(value, heads.length);
        cell.style.color = several ? head.color : '';
        cell.title = several ? `head ${head.number}` : '';
      });
      row.style.setProperty('--strength', mark.strength === null ? 0 : mark.strength);
      row.style.setProperty('--color', color);
      row.className = `token${mark.strong ? ' strong' : ''}${mark.dim ? ' dim' : ''}${isFound(this.side, i) ? ' found' : ''}`;
      rows.push(row);
    }
    if (rows.length !== this.element.children.length || rows[0] !== this.element.firstChild)
      this.element.replaceChildren(...rows);
  }
}
