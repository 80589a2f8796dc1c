// A column of tokens that builds only what is in view.

/// How high a row of the lines is: all tokens in one look while they can be read.
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
  /// marks(index) → { strength 0 … 1 or null, value or null, strong, dim }.
  show(labels, first, last, height, marks, color) {
    while (this.pool.length < last - first)
      this.pool.push(el('div', { class: 'token' }, el('span', { class: 'number' }), el('bdi'),
        el('span', { class: 'weight' })));
    const rows = [];
    for (let i = first; i < last; ++i) {
      const row = this.pool[i - first];
      const [number, label, weight] = row.children;
      const mark = marks(i);
      row.dataset.index = i;
      row.style.top = `${i * height}px`;
      row.style.height = `${height}px`;
      row.style.fontSize = `${Math.min(13, height - 2)}px`;
      number.textContent = i;
      label.textContent = labels ? shown(labels[i]) : '';
      weight.textContent = mark.value === null ? '' : fixed(mark.value, 3);
      row.style.setProperty('--strength', mark.strength === null ? 0 : mark.strength);
      row.style.setProperty('--color', color);
      row.className = `token${mark.strong ? ' strong' : ''}${mark.dim ? ' dim' : ''}`;
      rows.push(row);
    }
    if (rows.length !== this.element.children.length || rows[0] !== this.element.firstChild)
      this.element.replaceChildren(...rows);
  }
}
