// Colours: viridis for weights (as `map` draws them), blue to red for signed numbers, one colour a head for lines. Colour-blind
// readers can distinguish all of them.

const signedDark = ['7fbfff', '3f86c4', '24507a', '22262c', '7a3b2c', 'c4643f', 'ffa27a'];

function channels(hex) {
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
/// 256 colours between the stops, as r, g, b bytes.
function tableOf(stops) {
  const colors = stops.map(channels);
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; ++i) {
    const at = (i / 255) * (colors.length - 1);
    const low = Math.min(Math.floor(at), colors.length - 2);
    for (let c = 0; c < 3; ++c)
      table[3 * i + c] = Math.round(colors[low][c] + (at - low) * (colors[low + 1][c] - colors[low][c]));
  }
  return table;
}
const viridisTable = tableOf(page.colors.viridis);
const signedTables = { light: tableOf(page.colors.diverging), dark: tableOf(signedDark) };

/// Okabe and Ito's colours, lightened for dark pages.
const firstColors = {
  light: ['#0072b2', '#d55e00', '#009e73', '#cc5f9c', '#56a0d9', '#b8860b', '#5b5bd6', '#6b6b6b'],
  dark: ['#4db2ff', '#ff8a3d', '#2fd6a3', '#ef92c4', '#8fd0ff', '#e8c04a', '#a3a3ff', '#b5b5b5'],
};
/// A colour as Oklab has it (Ottosson 2020): equal distances look about equal.
function oklabOf(hex) {
  const [r, g, b] = channels(hex.slice(1)).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}
/// As many colours as heads can be drawn: each further one is the farthest from all before it, of
/// those that are dark, or light, enough to be seen on the page.
const mostColors = 64;
function moreColors(first, least, most) {
  const palette = first.slice(), grid = [];
  const steps = [0, 51, 102, 153, 204, 255].map((value) => value.toString(16).padStart(2, '0'));
  for (const r of steps) for (const g of steps) for (const b of steps) {
    const color = `#${r}${g}${b}`, lab = oklabOf(color);
    if (lab[0] >= least && lab[0] <= most) grid.push({ color, lab, nearest: Infinity });
  }
  const see = (taken) => {
    const lab = oklabOf(taken);
    for (const one of grid)
      one.nearest = Math.min(one.nearest, Math.hypot(...lab.map((value, i) => value - one.lab[i])));
  };
  palette.forEach(see);
  while (palette.length < mostColors) {
    const next = grid.reduce((best, one) => (one.nearest > best.nearest ? one : best));
    palette.push(next.color);
    see(next.color);
  }
  return palette;
}
const headColors = {
  light: moreColors(firstColors.light, 0.35, 0.75),
  dark: moreColors(firstColors.dark, 0.55, 0.92),
};
function headColor(number) {
  return headColors[currentTheme()][number % mostColors];
}

/// A CSS variable of the theme.
function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// Maps values to 0 … 255 and to colours. `signed` runs from −high to high.
function painter({ low, high, signed, log }) {
  const table = signed ? signedTables[currentTheme()] : viridisTable;
  const decades = 4; // logarithmic: from high · 10^−4
  const place = signed
    ? (value) => 127.5 + (127.5 * value) / (high || 1)
    : log
      ? (value) => (value <= 0 ? 0 : 255 * (1 + Math.log10(value / (high || 1)) / decades))
      : (value) => (255 * (value - low)) / (high - low || 1);
  return {
    table, low, high, signed, log,
    index(value) {
      const at = place(value);
      return at <= 0 ? 0 : at >= 255 ? 255 : Math.round(at);
    },
    css(value) {
      const at = 3 * this.index(value);
      return `rgb(${table[at]} ${table[at + 1]} ${table[at + 2]})`;
    },
  };
}

/// Puts an image, a row a query and a column a key, on a canvas: turned round where tokens are columns.
function putMap(canvas, image, turned) {
  const { width, height } = image;
  canvas.width = turned ? height : width;
  canvas.height = turned ? width : height;
  const put = turned ? new ImageData(height, width) : image;
  const from = new Uint32Array(image.data.buffer), to = new Uint32Array(put.data.buffer);
  if (turned) from.forEach((pixel, at) => { to[(at % width) * height + Math.floor(at / width)] = pixel; });
  canvas.getContext('2d').putImageData(put, 0, 0);
}
