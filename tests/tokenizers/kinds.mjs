// A tokenizer.json of every kind of part.

import { charsmap, replacements } from './charsmap.mjs';

const added = (contents, more = {}) => contents.map((content, id) => ({ id, content, single_word: false, lstrip: false,
  rstrip: false, normalized: false, special: true, ...more }));
const special = ['<unk>', '<s>', '</s>', '<mask>'];

/// Bytes alone: the numbers tell what the normalizer made of the text.
function bytes(parts) {
  const vocab = Object.fromEntries(special.map((piece, id) => [piece, id]));
  for (let byte = 0; byte < 256; ++byte) vocab[`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`] = special.length + byte;
  return { version: '1.0', added_tokens: added(special), normalizer: null, pre_tokenizer: null, post_processor: null,
    decoder: null, model: { type: 'BPE', vocab, merges: [], byte_fallback: true, unk_token: '<unk>', fuse_unk: true }, ...parts };
}

/// Every word is unknown: their places tell where the pre-tokenizer cuts.
function places(pre_tokenizer, parts = {}) {
  return { version: '1.0', added_tokens: added(special), normalizer: null, pre_tokenizer, post_processor: null, decoder: null,
    model: { type: 'WordLevel', vocab: Object.fromEntries(special.map((piece, id) => [piece, id])), unk_token: '<unk>' }, ...parts };
}

/// Merges of the letters that are frequent, as a trainer would find them.
function merged(alphabet, pairs) {
  const vocab = {};
  for (const piece of [...special, ...alphabet, ...pairs.map(([a, b]) => a + b)]) vocab[piece] ??= Object.keys(vocab).length;
  return { vocab, merges: pairs };
}

const latin = [...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?\'"()[]{}<>/-+=_*&%$#@éïß▁'];
const pairs = [['▁', 't'], ['h', 'e'], ['▁t', 'he'], ['i', 'n'], ['e', 'r'], ['▁', 'a'], ['o', 'n'], ['r', 'e'], ['▁', 's'], ['a', 't'],
  ['o', 'r'], ['e', 's'], ['b', 'e'], ['▁', 'be'], ['t', 'o'], ['▁', 'to'], ['n', 'o'], ['no', 't'], ['▁', 'not'], ['q', 'u'], ['qu', 'es'],
  ['1', '2'], ['12', '3'], ['▁', '▁'], ['▁▁', '▁▁'], ['f', 'o'], ['fo', 'o'], ['l', 'l']];
const fallback = (model) => {
  for (let byte = 0; byte < 256; ++byte) model.vocab[`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`] = Object.keys(model.vocab).length;
  return model;
};
const bos = { type: 'TemplateProcessing', single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
  pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }], special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } } };
const llama2 = { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }] };
const bert = (more) => ({ type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true, ...more });
const sentences = (merge) => ({ type: 'BPE', dropout: null, unk_token: '<unk>', continuing_subword_prefix: null, end_of_word_suffix: null,
  fuse_unk: true, byte_fallback: true, ignore_merges: false, ...fallback(merge) });

export const models = {
  'Llama 2': bytes({ normalizer: llama2, post_processor: bos, model: sentences(merged(latin, pairs)) }),
  'Mistral': bytes({ pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false }, post_processor: bos,
    model: sentences({ ...merged(latin, pairs), merges: pairs.map((pair) => pair.join(' ')) }) }),
  'Gemma': bytes({ normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' }, post_processor: bos,
    pre_tokenizer: { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false }, model: sentences(merged(latin, pairs)) }),
  'unknown characters, one by one': bytes({ model: { type: 'BPE', unk_token: '<unk>', fuse_unk: false, ...merged(latin, pairs) } }),
  'unknown characters, fused': bytes({ pre_tokenizer: { type: 'WhitespaceSplit' }, model: { type: 'BPE', unk_token: '<unk>', fuse_unk: true, ...merged(latin, pairs) } }),
  'CLIP': bytes({
    normalizer: { type: 'Sequence', normalizers: [{ type: 'NFC' }, { type: 'Replace', pattern: { Regex: '\\s+' }, content: ' ' }, { type: 'Lowercase' }] },
    pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Split', behavior: 'Removed', invert: true,
      pattern: { Regex: "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+" } }, { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true }] },
    post_processor: { type: 'RobertaProcessing', sep: ['</s>', 2], cls: ['<s>', 1], trim_offsets: false, add_prefix_space: false },
    model: { type: 'BPE', end_of_word_suffix: '</w>', unk_token: '<unk>', ...merged([...latin, ...latin.map((c) => `${c}</w>`)],
      [['t', 'h'], ['th', 'e</w>'], ['t', 'o</w>'], ['b', 'e</w>'], ['i', 'n'], ['o', 'r</w>']]) } }),
  'continuing prefix': bytes({ pre_tokenizer: { type: 'Whitespace' }, model: { type: 'BPE', continuing_subword_prefix: '##', unk_token: '<unk>',
    ...(() => { const m = merged([...latin, ...latin.map((c) => `##${c}`)], []); for (const piece of ['th', '##he', 'the', 'be', '##in']) m.vocab[piece] = Object.keys(m.vocab).length;
      m.merges = [['t', '##h'], ['th', '##e'], ['b', '##e'], ['##i', '##n']]; return m; })() } }),
  'WordPiece': bytes({ normalizer: bert(), pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: { type: 'BertProcessing', sep: ['</s>', 2], cls: ['<s>', 1] },
    model: { type: 'WordPiece', unk_token: '<unk>', continuing_subword_prefix: '##', max_input_chars_per_word: 12,
      vocab: merged([...latin, ...latin.map((c) => `##${c}`), 'the', 'to', 'be', 'quest', '##ion', '##er', '中', '日', 'question', '##tion'], []).vocab } }),
  'T5': bytes({ pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'WhitespaceSplit' }, { type: 'Metaspace', replacement: '▁', add_prefix_space: true }] },
    post_processor: { type: 'TemplateProcessing', single: [{ Sequence: { id: 'A', type_id: 0 } }, { SpecialToken: { id: '</s>', type_id: 0 } }], pair: bos.pair,
      special_tokens: { '</s>': { id: '</s>', ids: [2], tokens: ['</s>'] } } },
    model: { type: 'Unigram', unk_id: 0, byte_fallback: false,
      vocab: [...special.map((s) => [s, 0]), ...latin.map((c, i) => [c, -5 - 0.013 * i]), ...pairs.map(([a, b], i) => [a + b, -3 - 0.071 * i]),
        ['question', -7.5], ['▁that', -4.25], ['▁is', -4.5], ['日本語', -9]].filter(([p], i, all) => all.findIndex(([q]) => q === p) === i) } }),
};

const normalizers = {
  BertNormalizer: bert(), 'BertNormalizer, cased': bert({ lowercase: false, strip_accents: false }), 'BertNormalizer, accents': bert({ lowercase: false, strip_accents: true, clean_text: false, handle_chinese_chars: false }),
  Strip: { type: 'Strip', strip_left: true, strip_right: true }, 'Strip, left': { type: 'Strip', strip_left: true, strip_right: false },
  StripAccents: { type: 'Sequence', normalizers: [{ type: 'NFD' }, { type: 'StripAccents' }] }, NFC: { type: 'NFC' }, NFD: { type: 'NFD' }, NFKC: { type: 'NFKC' },
  NFKD: { type: 'NFKD' }, Lowercase: { type: 'Lowercase' }, Nmt: { type: 'Nmt' }, Replace: { type: 'Replace', pattern: { Regex: '[aeiou]+\\b' }, content: '<V>' },
  'Replace, text': { type: 'Replace', pattern: { String: 'to' }, content: '' }, Prepend: { type: 'Prepend', prepend: '▁x' }, ByteLevel: { type: 'ByteLevel' },
  Precompiled: { type: 'Precompiled', precompiled_charsmap: charsmap(replacements) },
};
const split = (behavior, more = {}) => ({ type: 'Split', pattern: { Regex: '[aeiou\\d ]+?' }, behavior, invert: false, ...more });
const preTokenizers = {
  BertPreTokenizer: { type: 'BertPreTokenizer' }, ByteLevel: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
  'ByteLevel, whole': { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false }, CharDelimiterSplit: { type: 'CharDelimiterSplit', delimiter: 'e' },
  Digits: { type: 'Digits', individual_digits: true }, 'Digits, together': { type: 'Digits', individual_digits: false }, FixedLength: { type: 'FixedLength', length: 5 },
  Metaspace: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true }, 'Metaspace, first': { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: true },
  'Metaspace, never': { type: 'Metaspace', replacement: '▁', prepend_scheme: 'never', split: true },
  Punctuation: { type: 'Punctuation', behavior: 'Isolated' }, 'Punctuation, contiguous': { type: 'Punctuation', behavior: 'Contiguous' }, 'Punctuation, removed': { type: 'Punctuation', behavior: 'Removed' },
  Whitespace: { type: 'Whitespace' }, WhitespaceSplit: { type: 'WhitespaceSplit' }, UnicodeScripts: { type: 'UnicodeScripts' },
  Sequence: { type: 'Sequence', pretokenizers: [{ type: 'UnicodeScripts' }, { type: 'Digits', individual_digits: true }, { type: 'Punctuation' }] },
  ...Object.fromEntries(['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'].flatMap((b) => [[`Split, ${b}`, split(b)], [`Split, ${b}, inverted`, split(b, { invert: true })]])),
  'Split, text': { type: 'Split', pattern: { String: 'a.' }, behavior: 'Isolated', invert: false },
  'Split, word': { type: 'Split', pattern: { Regex: '\\w+|\\b' }, behavior: 'Isolated', invert: false },
};
const addedTokens = {
  lstrip: { lstrip: true }, rstrip: { rstrip: true }, 'lstrip and rstrip': { lstrip: true, rstrip: true }, single_word: { single_word: true }, normalized: { normalized: true, special: false },
};

export const kinds = { ...models };
for (const [name, normalizer] of Object.entries(normalizers)) kinds[`normalizer ${name}`] = bytes({ normalizer });
for (const [name, part] of Object.entries(preTokenizers)) kinds[`pre-tokenizer ${name}`] = places(part);
for (const [name, more] of Object.entries(addedTokens))
  kinds[`added tokens, ${name}`] = bytes({ added_tokens: [...added(special, more), { ...added(['To be'])[0], ...more, id: 260 }, { ...added(['be'])[0], ...more, id: 261 }], normalizer: { type: 'Lowercase' } });
export const kindsSpecial = [...special, 'To be', 'be'];
