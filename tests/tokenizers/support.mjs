// Runs our tokenizer and the others over the same texts.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const out = path.resolve(process.env.OUT);
export const packages = path.join(out, 'node_modules');
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const load = createRequire(path.join(out, 'package.json'));
const lines = path.resolve(process.env.TOKENIZER_LINES);

/// A folder with this tokenizer.json.
export function folder(name, json) {
  const at = path.join(out, 'cases', name.replace(/[^\w]+/g, '-'));
  fs.mkdirSync(at, { recursive: true });
  fs.writeFileSync(path.join(at, 'tokenizer.json'), JSON.stringify(json));
  return at;
}

/// Ours: {ids, begin, end, pieces} of each text, places in bytes.
export function ours(at, texts, args = []) {
  const input = texts.map((text) => JSON.stringify(text)).join('\n');
  return execFileSync(lines, [at, ...args], { input, maxBuffer: 2 ** 30 }).toString().trimEnd().split('\n').map((line) => JSON.parse(line));
}

/// The library in Rust that everybody uses: the same, its places turned from characters into bytes.
export async function reference(at, texts, addSpecialTokens = true) {
  const tokenizer = load('tokenizers').Tokenizer.fromFile(path.join(at, 'tokenizer.json'));
  const encodings = await tokenizer.encodeBatch(texts, { addSpecialTokens });
  return texts.map((text, i) => {
    const places = [0];
    for (const character of text) places.push(places.at(-1) + Buffer.byteLength(character));
    const offsets = encodings[i].getOffsets();
    return { ids: encodings[i].getIds(), begin: offsets.map(([begin]) => places[begin]), end: offsets.map(([, end]) => places[end]) };
  });
}

/// The one in JavaScript: numbers only. Nothing where it cannot read the file.
export function javascript(json, texts) {
  const { Tokenizer } = load('@huggingface/tokenizers');
  try {
    const tokenizer = new Tokenizer(json, {});
    return texts.map((text) => { try { return Array.from(tokenizer.encode(text).ids, Number); } catch { return null; } });
  } catch {
    return null;
  }
}

/// How many texts differ, and the first that does, told.
export function differences(texts, mine, theirs) {
  let count = 0, first = '';
  texts.forEach((text, i) => {
    if (JSON.stringify(mine[i]) === JSON.stringify(theirs[i])) return;
    if (count++ === 0) first = `${JSON.stringify(text)}\n  ours   ${JSON.stringify(mine[i])}\n  theirs ${JSON.stringify(theirs[i])}`;
  });
  return { count, first };
}
