// What the page shows, saved as SVG or PNG: the same drawing, once on a canvas and once as elements.

/// The part of a canvas context that the drawing code uses, as SVG.
class SvgContext {
  constructor(width, height) {
    Object.assign(this, { fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, lineCap: 'butt', font: '10px sans-serif',
      textAlign: 'left', textBaseline: 'alphabetic', globalAlpha: 1, imageSmoothingEnabled: true });
    this.width = width;
    this.height = height;
    this.parts = [];
    this.own = { transform: [], clips: 0 };
    this.saved = [];
    this.path = '';
    this.measuring = el('canvas').getContext('2d');
  }
  static properties = ['fillStyle', 'strokeStyle', 'lineWidth', 'lineCap', 'font', 'textAlign', 'textBaseline', 'globalAlpha'];
  save() {
    this.saved.push({ own: { transform: [...this.own.transform], clips: this.own.clips },
      values: SvgContext.properties.map((name) => this[name]) });
  }
  restore() {
    const { own, values } = this.saved.pop();
    for (; this.own.clips > own.clips; --this.own.clips) this.parts.push('</svg>');
    this.own = own;
    SvgContext.properties.forEach((name, i) => { this[name] = values[i]; });
  }
  translate(x, y) {
    this.own.transform.push(`translate(${short(x)} ${short(y)})`);
  }
  rotate(angle) {
    this.own.transform.push(`rotate(${short((angle * 180) / Math.PI)})`);
  }
  put(tag, attributes, content = '') {
    if (this.own.transform.length > 0) attributes.transform = this.own.transform.join(' ');
    if (this.globalAlpha < 1) attributes.opacity = short(this.globalAlpha);
    const text = Object.entries(attributes).map(([name, value]) => ` ${name}="${xml(String(value))}"`).join('');
    this.parts.push(content === '' ? `<${tag}${text}/>` : `<${tag}${text}>${content}</${tag}>`);
  }
  fillRect(x, y, width, height) {
    this.put('rect', { x: short(x), y: short(y), width: short(width), height: short(height), fill: this.fillStyle });
  }
  strokeRect(x, y, width, height) {
    this.put('rect', { x: short(x), y: short(y), width: short(width), height: short(height), fill: 'none',
      stroke: this.strokeStyle, 'stroke-width': short(this.lineWidth) });
  }
  measureText(text) {
    this.measuring.font = this.font;
    return this.measuring.measureText(text);
  }
  fillText(text, x, y) {
    const [, size, family] = /([\d.]+)px (.*)/.exec(this.font);
    const anchor = { left: 'start', right: 'end', center: 'middle' }[this.textAlign];
    // Not every program knows dominant-baseline: the shift is written out.
    const shift = { middle: 0.35, top: 0.8 }[this.textBaseline] || 0;
    this.put('text', { x: short(x), y: short(y + shift * size), 'font-size': size, 'font-family': family.replaceAll('"', "'"),
      'text-anchor': anchor, fill: this.fillStyle }, xml(text));
  }
  beginPath() {
    this.path = '';
    this.box = null;
  }
  moveTo(x, y) {
    this.path += `M${short(x)} ${short(y)}`;
  }
  bezierCurveTo(...numbers) {
    this.path += `C${numbers.map(short).join(' ')}`;
  }
  rect(x, y, width, height) {
    this.box = { x, y, width, height };
  }
  /// A picture within the picture shows nothing beyond its own edges.
  clip() {
    const [x, y, width, height] = ['x', 'y', 'width', 'height'].map((name) => short(this.box[name]));
    this.parts.push(`<svg x="${x}" y="${y}" width="${width}" height="${height}" viewBox="${x} ${y} ${width} ${height}">`);
    ++this.own.clips;
  }
  stroke() {
    this.put('path', { d: this.path, fill: 'none', stroke: this.strokeStyle, 'stroke-width': short(this.lineWidth), 'stroke-linecap': this.lineCap });
  }
  /// Few cells are rectangles, as `map` draws them (lib/render/map.hpp); more are a picture of one pixel per cell.
  drawImage(picture, x, y, width, height) {
    if (picture.width * picture.height > 128 * 128) {
      this.put('image', { x: short(x), y: short(y), width: short(width), height: short(height), preserveAspectRatio: 'none',
        style: 'image-rendering:pixelated', href: picture.toDataURL('image/png') });
      return;
    }
    const { data } = picture.getContext('2d').getImageData(0, 0, picture.width, picture.height);
    const w = width / picture.width, h = height / picture.height;
    const color = (row, col) => {
      const at = 4 * (row * picture.width + col);
      return data[at + 3] === 0 ? '' : `#${[0, 1, 2].map((i) => data[at + i].toString(16).padStart(2, '0')).join('')}`;
    };
    for (let row = 0; row < picture.height; ++row)
      for (let col = 0; col < picture.width;) {
        const first = col, fill = color(row, col);
        while (col < picture.width && color(row, col) === fill) ++col;
        if (fill === '') continue;
        this.put('rect', { x: short(x + first * w), y: short(y + row * h), width: short((col - first) * w), height: short(h),
          fill, 'shape-rendering': 'crispEdges' });
      }
  }
  text() {
    return `<svg xmlns="${$('svg').namespaceURI}" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}">\n`
      + `${this.parts.join('\n')}\n</svg>\n`;
  }
}
const short = (number) => Number(number.toFixed(2));
/// Text between tags or in an attribute; what XML has no character for is left out.
function xml(text) {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '')
    .replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function download(blob, name) {
  const link = el('a', { href: URL.createObjectURL(blob), download: name.replace(/[^\w.-]+/g, '-') });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
/// `picture`: { name, width, height, paint(context) }.
function saveSvg({ name, width, height, paint }) {
  const context = new SvgContext(width, height);
  context.fillStyle = themed('--paper');
  context.fillRect(0, 0, width, height);
  paint(context);
  download(new Blob([context.text()], { type: 'image/svg+xml' }), `${name}.svg`);
}
function savePng({ name, width, height, paint }) {
  const times = 2, canvas = el('canvas', { width: times * width, height: times * height });
  const context = canvas.getContext('2d');
  context.scale(times, times);
  context.fillStyle = themed('--paper');
  context.fillRect(0, 0, width, height);
  paint(context);
  canvas.toBlob((blob) => download(blob, `${name}.png`), 'image/png');
}

/// "head-L1-H0": the name of a head's picture.
const pictureName = (what, layer, head) => `${what}-${shortName(layer, head)}`;
const matrixPicture = (one, head) => ({ name: pictureName(state.stage, one.layer, head), ...one.size,
  paint: (context) => one.paint(context) });

function setupSaving() {
  const pictures = {
    grid: gridPicture,
    lines: linesPicture,
    matrix: () => matrixPicture(matrix, state.head),
    beside: () => matrixPicture(beside.matrix, besideHead()),
    experts: expertsPicture,
  };
  for (const [what, picture] of Object.entries(pictures))
    $(`save-${what}`).replaceChildren('Save', ...[['SVG', saveSvg], ['PNG', savePng]].map(([form, save]) =>
      el('button', { class: 'link', 'aria-label': `Save as ${form}`, onclick: () => save(picture()) }, form)));
}
