// Numbers and labels as text.

/// The exponent as C writes it: 1e-5 is 1e-05.
function withExponent(text) {
  return text.replace(/e([+-])(\d)$/, 'e$10$2');
}

/// The shortest text that reads back to the same number: what `show` prints as CSV and JSON.
function exact(value, dtype) {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  let text = String(value);
  if (dtype === 'float32')
    for (let digits = 1; digits <= 9; ++digits) {
      text = value.toPrecision(digits);
      if (Math.fround(Number(text)) === value) break;
    }
  const number = Number(text);
  if (number === 0) return Object.is(value, -0) ? '-0' : '0';
  const exponent = Math.floor(Math.log10(Math.abs(number)));
  if (exponent < -4 || exponent >= 16) return withExponent(number.toExponential());
  return String(number);
}

/// A number for readers.
function rounded(value, digits = 4) {
  if (value == null || Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 10 ** -digits || size >= 1e6) return minus(withExponent(value.toExponential(2)));
  const whole = size >= 1 ? Math.floor(Math.log10(size)) + 1 : 0;
  return minus(value.toFixed(Math.max(digits - Math.max(whole, 1), 0) + (whole === 0 ? 1 : 0)));
}
function minus(text) {
  return text.replace(/-/g, '−');
}
/// 4 decimals, as tables of weights have them.
function fixed(value, decimals = 4) {
  if (value == null || !Number.isFinite(value)) return rounded(value);
  if (value === 0) return '0';
  return minus(value.toFixed(decimals));
}
function percent(value) {
  if (value == null) return '–';
  const text = (100 * value).toFixed(1);
  return `${minus(text)} %`;
}

/// Numbers below each other: filled with spaces as wide as digits, so that their points are.
function aligned(texts) {
  const decimals = (text) => {
    if (!/^−?\d+(\.\d+)?( %)?$/.test(text)) return -1;
    const point = text.indexOf('.');
    return point < 0 ? 0 : text.length - 1 - point;
  };
  const most = Math.max(0, ...texts.map(decimals));
  return texts.map((text) => {
    const own = decimals(text);
    if (own < 0 || own >= most) return text;
    return text + (text.includes('.') ? '' : '\u2008') + '\u2007'.repeat(most - own);
  });
}
/// A format for numbers up to `high`: the same decimals for all, about three digits of the largest.
function evenly(high) {
  const whole = high >= 1 && high < 1e6 ? Math.floor(Math.log10(high)) + 1 : 1;
  const decimals = Math.max(0, 3 - Math.max(0, whole - 1));
  return high > 0 && (high < 1e-3 || high >= 1e6) ? (value) => rounded(value, 3)
    : (value) => (Number.isFinite(value) ? minus(value.toFixed(decimals)).replace(/^−(?=[0.]*$)/, '') : rounded(value));
}

/// "17 't9'", or "17". Labels come as readers want to see them (lib/render/label.hpp).
function named(index, labels) {
  const label = labels && labels[index];
  return label ? `${index} '${label}'` : String(index);
}
