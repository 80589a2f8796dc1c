// Colours: viridis for weights (as `map` draws them), blue to red for signed numbers, one colour a head for lines. All of
// them can be told apart by colour-blind eyes.

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
const headColors = {
  light: ['#0072b2', '#d55e00', '#009e73', '#cc5f9c', '#56a0d9', '#b8860b', '#5b5bd6', '#6b6b6b'],
  dark: ['#4db2ff', '#ff8a3d', '#2fd6a3', '#ef92c4', '#8fd0ff', '#e8c04a', '#a3a3ff', '#b5b5b5'],
};
function headColor(number) {
  return headColors[currentTheme()][number % 8];
}

/// A CSS variable of the theme.
function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// How values become 0 … 255, and which colour that is. `signed` runs from −high to high.
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
