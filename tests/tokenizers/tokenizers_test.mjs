// Our tokens against others' (compare.mjs): the models of data/, and every kind of part.

import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { kinds, kindsSpecial } from './kinds.mjs';
import { compare, count } from './compare.mjs';
import { folder, root } from './support.mjs';
import { texts } from './texts.mjs';

for (const name of ['bard-gpt2', 'bard-llama', 'bard-bert', 'induction-model'])
  test(`${name}: the same numbers`, async () => {
    const at = path.join(root, 'data', name), json = JSON.parse(fs.readFileSync(path.join(at, 'tokenizer.json'), 'utf8'));
    await compare(name, at, json, texts(count, json.added_tokens.map((token) => token.content), 7));
  });

for (const [name, json] of Object.entries(kinds))
  test(`${name}: the same numbers`, async () => {
    const places = name.startsWith('pre-tokenizer'); // of words that are all unknown, which JavaScript's joins
    await compare(name, folder(name, json), json, texts(count, kindsSpecial), { places, others: !places });
  });
