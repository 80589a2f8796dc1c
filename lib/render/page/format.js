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

/// A number for eyes.
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

/// A label as it can be shown: spaces and control characters made visible.
function shown(label) {
  return label
    .replace(/[\u0000-\u001f\u007f]/g, (c) => (c === '\n' ? '↵' : c === '\t' ? '⇥' : '·'))
    .replace(/^ | $/g, '␣')
    // What would turn the order of the text around it.
    .replace(/[\u202a-\u202e\u2066-\u2069\u2028\u2029]/g, '·');
}
/// "17 't9'", or "17".
function named(index, labels) {
  const label = labels && labels[index];
  return label ? `${index} '${shown(label)}'` : String(index);
}
