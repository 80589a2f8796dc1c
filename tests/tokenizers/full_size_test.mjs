// Our tokens against others' (compare.mjs), with vocabularies of full size.

import { test } from 'node:test';
import { compare, count } from './compare.mjs';
import { folder, load } from './support.mjs';
import { texts } from './texts.mjs';
import { llama3, tiktoken } from './vocabularies.mjs';

for (const name of ['r50k', 'p50k', 'cl100k', 'o200k'])
  test(`${name}, at full size: the same numbers`, async () => {
    const json = tiktoken(name);
    await compare(name, folder(name, json), json, texts(count, ['<|endoftext|>'], 3), { places: true });
  });

test('Llama 3, at full size: the same numbers', async () => {
  const { default: tokenizer } = load('llama3-tokenizer-js');
  const json = llama3(tokenizer);
  await compare('llama3', folder('llama3', json), json, texts(count, ['<|begin_of_text|>', '<|eot_id|>'], 5), { places: true });
});
