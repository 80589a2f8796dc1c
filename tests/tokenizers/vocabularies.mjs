// Vocabularies of full size, as npm packages carry them, rebuilt into tokenizer.json.

import fs from 'node:fs';
import path from 'node:path';
import { packages } from './support.mjs';

const letters = (() => {
  const list = [];
  let next = 256;
  for (let byte = 0; byte < 256; ++byte)
    list.push(String.fromCodePoint((byte > 32 && byte < 127) || (byte > 160 && byte < 173) || byte > 173 ? byte : next++));
  return list;
})();

const contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const mixed = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
export const patterns = {
  cl100k: `${contraction}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  o200k: `${mixed}*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+${contraction}?|${mixed}+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*${contraction}?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
};
const split = (name) => ({ type: 'Sequence', pretokenizers: [{ type: 'Split', pattern: { Regex: patterns[name] }, behavior: 'Isolated', invert: false },
  { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false }] });
// In the vocabulary too: the library in Rust numbers added tokens itself where it has no number of theirs.
const json = (vocab, merges, pre_tokenizer, special, ignore_merges) => ({ version: '1.0', truncation: null, padding: null,
  added_tokens: Object.entries(special).map(([content, id]) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true })),
  normalizer: null, pre_tokenizer, post_processor: null, decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false }, model: { type: 'BPE', vocab: { ...vocab, ...special }, merges, ignore_merges } });

/// The two pieces that a piece is merged of last: what merges of lower rank leave of it.
function halves(piece, ranks, rank) {
  let parts = [...piece];
  while (parts.length > 2) {
    let best = -1, lowest = rank;
    for (let i = 0; i + 1 < parts.length; ++i) {
      const found = ranks.get(parts[i] + parts[i + 1]);
      if (found !== undefined && found < lowest) { lowest = found; best = i; }
    }
    if (best < 0) return null;
    parts.splice(best, 2, parts[best] + parts[best + 1]);
  }
  return parts.length === 2 ? parts : null;
}

/// A list of pieces by rank, which are their numbers too.
export function tiktoken(name) {
  const ranks = new Map(), vocab = {}, merges = [];
  for (const line of fs.readFileSync(path.join(packages, 'gpt-tokenizer/data', `${name}_base.tiktoken`), 'utf8').split('\n')) {
    if (line === '') continue;
    const [piece, rank] = line.split(' ');
    ranks.set([...Buffer.from(piece, 'base64')].map((byte) => letters[byte]).join(''), Number(rank));
  }
  for (const [piece, rank] of ranks) {
    vocab[piece] = rank;
    const pair = halves(piece, ranks, rank);
    if (pair) merges.push(pair);
  }
  const words = name in patterns ? split(name) : { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: true };
  const special = name === 'o200k' ? { '<|endoftext|>': 199999 } : name === 'cl100k' ? { '<|endoftext|>': 100257, '<|endofprompt|>': 100276 } : { '<|endoftext|>': 50256 };
  return json(vocab, merges, words, special, false);
}

export function llama3(tokenizer) {
  const vocab = {}, special = {};
  tokenizer.vocabById.forEach((piece, id) => { (/^<\|.*\|>$/.test(piece) && id >= 128000 ? special : vocab)[piece] = id; });
  return json(vocab, [...tokenizer.merges.keys()], split('cl100k'), special, true);
}
