// Our tokens against those of the library in Rust that everybody uses (npm: tokenizers), and of the one
// in JavaScript (@huggingface/tokenizers).

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { differences, javascript, ours, out, reference } from './support.mjs';

export const count = Number(process.env.TEXTS ?? 2000);
const report = [];

/// Our numbers must be the reference's, and so must places where no normalizer shifts them: ours then
// cover all that a token was made of, the reference's only its first character.
export async function compare(name, at, json, list, { places = false, others = true } = {}) {
  const mine = ours(at, list), theirs = await reference(at, list);
  const ids = differences(list, mine.map((one) => one.ids ?? one.error), theirs.map((one) => one.ids));
  // Where this one differs, the other two agree: it is reported, not required.
  const javascripts = others ? javascript(json, list) : null;
  const unlike = javascripts ? differences(list, mine.map((one) => one.ids), javascripts).count : '-';
  const spans = differences(list, mine.map((one) => [one.begin, one.end]), theirs.map((one) => [one.begin, one.end]));
  report.push([name, list.length, ids.count, spans.count, unlike].join('\t'));
  assert.equal(ids.count, 0, `${name}: ${ids.count} texts differ, first ${ids.first}`);
  if (places) assert.equal(spans.count, 0, `${name}: the places of ${spans.count} texts differ, first ${spans.first}`);
}

process.on('exit', () => fs.writeFileSync(path.join(out, `report-${path.basename(process.argv[1], '.mjs')}.tsv`),
  `kind\ttexts\tnumbers differ\tplaces differ\tJavaScript's numbers differ\n${report.join('\n')}\n`));
