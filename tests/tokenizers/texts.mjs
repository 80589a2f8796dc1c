// Texts that tokenizers find hard, drawn from a seed.

const words = `the of To be or not to be that is the question Whether 'tis nobler I'm you're they've we'll he'd DON'T
  naïve café Ångström façade Straße İstanbul ΣΑΣ ǅ ﬁne № ½ ² Ⅳ ａｂｃ ａ１ Ελληνικά русский язык עברית العربية ١٢٣ हिन्दी
  தமிழ் ไทย 日本語 テスト カタカナー 한국어 中文字符 漢字かな交じり文 㐀 𠀀 豈 x86_64 foo_bar fooBar HTTPServer v1.2.3
  3.14159 1234567 1e-9 0xFF 100% $5.00 #tag @user a+b=c (x) [y] {z} <tag/> http://a.b/c?d=e&f def f(x):return x**2
  if(x!=0){y+=1;} /* c */ // --flag "quoted" 'single' … — – ‐ “curly” ‘s ’s ¿qué? ¡ay! «oui» 。、！ ﷺ`.split(/\s+/);
const spaces = [' ', ' ', ' ', '  ', '   ', '\t', '\n', '\n\n', '\r\n', '\r', ' \n ', '\u00a0', '\u2003', '\u3000',
  '\u2028', '\u2029', '\u0085', '\u000b', '\f', '\u1680', '\u202f', '\u205f', '        ', '\n\n\n', ' \t '];
const marks = ['👩‍👩‍👧‍👦', '👍🏽', '🇩🇪', '❤️', '😀', '🏴󠁧󠁢󠁥󠁮󠁧󠁿', 'e\u0301', 'a\u0323\u0302', 'o\u0302\u0323', '\u0301', '\u1100\u1161\u11a8', 'ก็',
  '\u0344', 'Å', 'Ω', 'q\u0307\u0323', '\u0958', 'ཱི', 'ﬀ', '①', '㌀', '𝔘', 'Ⅷ', '\u200b', '\u200d', '\u200c', '\ufeff',
  '\u00ad', '\u202e', '\u0000', '\u0001', '\u001b', '\u007f', '\u0080', '\u009f', '\ufffd', '\u{10ffff}', '\ue000', '▁', 'Ġ', '\u{1d165}',
  '\u{e0001}', 'ŉ', 'ß', 'ẞ', 'ς', 'ĳ', '٣', '൪', '\u0489', '༼', '﴾', '〜', '・', '`', '^', '~', '|', '¬', '×', '€', '©', '°', 'ª', 'µ'];

/// Numbers from 0 to n - 1, the same every time.
function random(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

/// `count` texts; `special` are pieces such as "<s>" that are written between and inside words.
export function texts(count, special, seed = 1) {
  const draw = random(seed);
  const one = (list) => list[draw(list.length)];
  const list = ['', ' ', '\n', 'a', ' a', 'a ', '  a  b  ', ...special, ...special.map((s) => ` ${s} x${s}y${s}${s} `)];
  while (list.length < count) {
    let text = '';
    for (let n = 1 + draw(12); n > 0; --n) {
      const kind = draw(20);
      if (kind < 11) text += one(words);
      else if (kind < 14) text += one(marks);
      else if (kind < 15 && special.length > 0) text += one(special);
      else if (kind < 16) text += String(draw(10 ** (1 + draw(9))));
      else if (kind < 17) text += one(words).slice(0, 1 + draw(3)).toUpperCase();
      else if (kind < 18) text += String.fromCodePoint([0x20 + draw(95), 0xa0 + draw(0x500), 0x3040 + draw(0x6000)][draw(3)]);
      else text += one(words).repeat(1 + draw(3));
      if (draw(4) > 0) text += one(spaces);
    }
    list.push(text.replace(/[\ud800-\udfff]/gu, '\ufffd')); // halves of characters, which slicing leaves
  }
  return list;
}
