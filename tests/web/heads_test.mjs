// Layers × heads, two heads side by side, the search for tokens, and what is saved.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fragment, hoverCell, mha, npy, open, out, report, shown, startBrowser, stopBrowser, write } from './support.mjs';

const text = ['data/bard-gpt2', '--text', 'O Romeo, Romeo! wherefore art thou Romeo?', '--layer', 'all'];
const other = ['data/bard-gpt2', '--text', 'O Juliet, Juliet! where is my own Juliet?', '--layer', 'all'];
let bard, second;
before(async () => {
  bard = report('bard', ...text, '--effects');
  second = report('second', ...other);
  await startBrowser();
});
after(stopBrowser);

/// What layers × heads are coloured by where nothing was chosen: induction, if it is told by rows enough.
const firstMeasure = (rows) => (rows.filter((row) => row.induction_rows >= 6).length * 2 > rows.length
  ? 'induction' : 'entropy_share');

/// The picture that a button saves, as bytes.
async function saved(page, box, form) {
  const [download] = await Promise.all([page.waitForEvent('download'),
    page.locator(`#save-${box} button`, { hasText: form }).click()]);
  const file = path.join(out, `saved-${download.suggestedFilename()}`);
  await download.saveAs(file);
  return { name: download.suggestedFilename(), bytes: fs.readFileSync(file) };
}
const colorsOf = (page) => page.locator('.grid-cell').evaluateAll((cells) => cells.map((cell) => getComputedStyle(cell).backgroundColor));

test('the first view is layers × heads, coloured by any measure and by effects', async () => {
  for (const [theme, width] of [['light', 1400], ['dark', 390]]) {
    const page = await open(bard.url, { theme, width, touch: width === 390 });
    assert.equal(await page.locator('.grid-cell').count(), 24);
    const grid = await page.locator('#grid').boundingBox();
    assert.ok(grid.y < (width === 390 ? 500 : 300), `${grid.y}`);
    assert.ok(await page.evaluate('document.documentElement.scrollWidth') <= width);
    // As stats tells it: the largest has the lightest colour, whatever the order.
    const rows = JSON.parse(mha('stats', ...text, '--quiet', '--format', 'json'));
    for (const measure of ['induction', 'entropy_share', 'max']) {
      await page.locator('#grid-measure').selectOption(measure);
      await page.waitForTimeout(120);
      const colors = await colorsOf(page);
      const largest = rows.reduce((best, row, i) => (row[measure] > rows[best][measure] ? i : best), 0);
      assert.equal(colors[largest], 'rgb(253, 231, 37)', measure); // the end of viridis
      assert.equal(fragment(page).grid, measure === firstMeasure(rows) ? undefined : measure);
      // A score of few rows says so, as the table's column does.
      const behind = rows[largest][`${measure}_rows`], few = behind > 0 && behind < 6;
      const label = await page.locator('.grid-cell').nth(largest).getAttribute('aria-label');
      assert.equal(label.match(/ \(of (\d+) rows?\)$/)?.[1], few ? String(behind) : undefined, label);
    }
    // An effect may have either sign: zero is the middle of the colours.
    await page.locator('#grid-measure').selectOption('logit_change');
    await page.waitForTimeout(120);
    assert.match(await page.locator('#grid-low').textContent(), /^−/);
    assert.equal((await page.locator('#grid-low').textContent()).slice(1), await page.locator('#grid-high').textContent());
    // Every head says which it is, and a click opens it beside the grid.
    const cell = page.locator('.grid-cell').nth(15); // layer 2, head 3
    assert.match(await cell.getAttribute('aria-label'), /^layer 2 · head 3: logit change /);
    await cell.click();
    await page.settled('2 3');
    await page.locator('#grid-map[data-place="2 3"]').waitFor();
    assert.equal(await page.locator('#grid-head-name').textContent(), 'Layer 2 · head 3');
    assert.equal(await page.locator('.grid-cell[aria-pressed="true"]').count(), 1);
    assert.equal(fragment(page).layer, '2');
    await page.screenshot({ path: path.join(out, `grid-${theme}-${width}.png`) });
    await page.locator('#grid-open').click();
    await page.waitForTimeout(600);
    assert.ok((await page.locator('#head-section').boundingBox()).y < 400);
    await page.done();
  }
});

test('32 × 32 heads fit a window and a phone; a page of 144 heads and 128 tokens is exact in 7 MB', async () => {
  const many = [];
  for (let i = 0; i < 32 * 32; ++i) many.push(1, 0, i / 1024, 1 - i / 1024);
  const page32 = report('grid32', `weights=${write('grid32.npy', npy([32, 32, 2, 2], many))}@LHTS`, '--causal', '--layer', 'all');
  for (const [width, theme] of [[1400, 'light'], [390, 'dark']]) {
    const page = await open(page32.url, { width, theme, touch: width === 390 });
    assert.equal(await page.locator('.grid-cell').count(), 1024);
    assert.ok(await page.evaluate('document.documentElement.scrollWidth') <= width);
    const boxes = await page.locator('.grid-cell').evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().width));
    assert.ok(Math.min(...boxes) >= (width === 390 ? 17 : 9), `${Math.min(...boxes)}`);
    await page.screenshot({ path: path.join(out, `grid32-${width}.png`), fullPage: width === 390 });
    await page.done();
  }
  // Softmax of noise: as badly as weights pack.
  let seed = 7;
  const noise = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const numbers = new Float32Array(144 * 128 * 128);
  for (let row = 0; row < 144 * 128; ++row) {
    const q = row % 128, exps = Array.from({ length: q + 1 }, () => Math.exp(6 * noise()));
    const sum = exps.reduce((a, b) => a + b, 0);
    exps.forEach((value, k) => { numbers[128 * row + k] = value / sum; });
  }
  const sources = [`weights=${write('grid12.npy', npy([12, 12, 128, 128], numbers))}@LHTS`, '--causal', '--layer', 'all'];
  const exact = report('grid12', ...sources), small = report('grid12-small', ...sources, '--max-size', '3');
  assert.ok(exact.bytes <= 7e6, `${exact.bytes} bytes`);
  assert.ok(small.bytes <= 3e6, `${small.bytes} bytes`);
  const page = await open(`${exact.url}#layer=7&head=5`);
  await page.settled('7 5');
  assert.match(await page.locator('#footer').textContent(), /^Weights are exact/);
  await hoverCell(page, 100, 31);
  assert.equal(await page.locator('#tip strong').textContent(),
    shown([sources[0], '--causal', '--layer', '7'], 5, 100, 31));
  await page.screenshot({ path: path.join(out, 'grid12.png') });
  await page.done();
  const fewer = await open(small.url);
  assert.match(await fewer.locator('#footer').textContent(), /rounded to 16 bits|largest weights are exact/);
  await fewer.done();
});

test('a token is found by its text, the next one by Enter', async () => {
  const page = await open(`${bard.url}#layer=1`);
  await page.settled('1 0');
  await page.keyboard.press('/');
  await page.keyboard.type('rome');
  await page.locator('#search-count', { hasText: '1 of 3' }).waitFor();
  const found = await page.locator('.tokens.query .token.found').evaluateAll((rows) => rows.map((row) => Number(row.dataset.index)));
  assert.deepEqual(found, [1, 4, 11]);
  const at = async () => Number(fragment(page).query);
  const visited = [await at()];
  for (let i = 0; i < 3; ++i) {
    await page.keyboard.press('Enter');
    await page.waitForTimeout(80);
    visited.push(await at());
  }
  assert.deepEqual(visited.slice().sort((a, b) => a - b).filter((x, i, list) => list.indexOf(x) === i), found);
  assert.equal(visited[0], visited[3]); // around
  assert.equal(await page.locator('.tokens.query .token.strong').getAttribute('data-index'), String(visited[3]));
  await page.keyboard.type('xyz');
  await page.locator('#search-count', { hasText: 'none' }).waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.token.found').count(), 0);
  await page.done();
});

test('two pages side by side: the same cell is marked and read in both', async () => {
  const page = await open(`${bard.url}#layer=2&head=4`);
  await page.settled('2 4');
  await page.locator('#beside-file').setInputFiles(path.join(out, 'second.html'));
  await page.locator('html[data-beside="2 4"]').waitFor({ state: 'attached' });
  assert.match(await page.locator('#beside-note').textContent(), /positions are/);
  await hoverCell(page, 5, 2);
  const values = [text, other].map((sources) => shown([...sources.slice(0, -1), '2'], 4, 5, 2));
  assert.equal(await page.locator('#tip strong').textContent(), values[0]);
  assert.match(await page.locator('#tip').textContent(), new RegExp(`beside it ${values[1]}$`));
  assert.match(await page.locator('#cell').textContent(), new RegExp(`^query 5 .* weights ${values[0]}$`));
  assert.match(await page.locator('#beside-cell').textContent(), new RegExp(`^query 5 .* weights ${values[1]}$`));
  // What is pinned stays with both, and another head of the first takes the other with it.
  await page.mouse.down();
  await page.mouse.up();
  await page.locator('#grid .grid-cell').nth(7).click(); // layer 1, head 1
  await page.locator('html[data-beside="1 1"]').waitFor({ state: 'attached' });
  await page.mouse.move(5, 5);
  assert.match(await page.locator('#beside-cell').textContent(), /^query 5 /);
  await page.screenshot({ path: path.join(out, 'beside-light.png'), fullPage: true });
  // Another head of this page.
  await page.locator('#beside').selectOption('this');
  await page.locator('#beside-layer').selectOption('3');
  await page.locator('#beside-head').selectOption('5');
  await page.locator('html[data-beside="3 5"]').waitFor({ state: 'attached' });
  await hoverCell(page, 6, 1);
  assert.match(await page.locator('#tip').textContent(), new RegExp(`beside it ${shown([...text.slice(0, -1), '3'], 5, 6, 1)}$`));
  await page.locator('#beside').selectOption('');
  assert.equal(await page.locator('#beside-view').isVisible(), false);
  // What is no page is refused in a line.
  await page.locator('#beside-file').setInputFiles(write('no-page.html', '<script type="application/json" id="data">{"layers": 3}</script>'));
  await page.locator('#beside-note', { hasText: 'no-page.html: a page of another version' }).waitFor();
  await page.locator('#beside-file').setInputFiles(write('nothing.html', 'x'));
  await page.locator('#beside-note', { hasText: 'not a page of mha-inspect report' }).waitFor();
  await page.done();
});

test('a measure of few rows is no first view, and what is grey is told', async () => {
  const short = report('short', 'data/bard-gpt2', '--text', 'To be, or not to be', '--text', 'O Romeo', '--text', 'hi');
  const page = await open(short.url);
  await page.locator('.grid-cell').first().waitFor();
  assert.equal(await page.locator('#grid-measure').inputValue(), 'entropy_share');
  assert.match(await page.locator('#grid-note').textContent(), /; grey: no row to measure$/);
  await page.locator('#grid-measure').selectOption('result_norm');
  await page.waitForTimeout(120);
  assert.ok(!(await page.locator('#grid-note').textContent()).includes('grey'));
  await page.done();
  // One token: every weight is 1, and that is the common end of the colours.
  const one = await open(report('one', 'data/bard-gpt2', '--ids', '5').url);
  await one.locator('.grid-cell').first().waitFor();
  assert.equal(await one.locator('#range').inputValue(), 'common');
  assert.equal(await one.locator('#scale-note').textContent(), 'the same in every small map');
  assert.match(await one.locator('#scale-high').textContent(), /^1(\.0+)?$/);
  await one.done();
});

test('what the page shows is saved as SVG and as PNG', async () => {
  const page = await open(`${bard.url}#grid=induction&layer=1&head=2&query=7&pin=query`);
  await page.settled('1 2');
  for (const [box, name, holds] of [['grid', 'grid-induction', 'induction'], ['matrix', 'weights-L1-H2', '␣art'],
    ['lines', 'lines-L1-H2', '7 &apos;|7 ']]) {
    const svg = await saved(page, box, 'SVG');
    assert.equal(svg.name, `${name}.svg`);
    const words = svg.bytes.toString();
    assert.ok(words.startsWith('<svg xmlns="http://www.w3.org/2000/svg"'));
    assert.ok(holds.split('|').some((word) => words.includes(word)), `${name}: ${holds}`);
    // It is XML, and a browser draws it.
    const wrong = await page.evaluate((source) => {
      const tree = new DOMParser();
      return typeof tree.parseFromString === 'function' && /&(?!amp;|lt;|gt;|quot;|apos;)/.test(source);
    }, words);
    assert.equal(wrong, false);
    const png = await saved(page, box, 'PNG');
    assert.equal(png.bytes.subarray(1, 4).toString(), 'PNG');
    const size = words.match(/width="(\d+(?:\.\d+)?)" height="(\d+(?:\.\d+)?)"/).slice(1).map(Number);
    assert.deepEqual([png.bytes.readUInt32BE(16), png.bytes.readUInt32BE(20)], size.map((one) => Math.floor(2 * one)));
  }
  await page.done();
  // The cells of the matrix have the colours that the page has: of a causal map of 14 tokens.
  const drawn = await open(`file://${path.join(out, 'saved-weights-L1-H2.svg')}`, { svg: true });
  await drawn.screenshot({ path: path.join(out, 'saved-matrix.png') });
  assert.ok((await drawn.locator('rect').count()) > 60);
  await drawn.done();
});

test('tokens in saved pictures are text, whatever they hold', async () => {
  const tokens = ['<script>alert(1)</script>', '&amp;', '"\'>', 'a\u0000b'];
  const rows = tokens.map((_, q) => tokens.map((__, k) => (k <= q ? 1 / (q + 1) : 0)));
  const page = await open(report('saved-tokens', write('saved-tokens.json', JSON.stringify({ weights: [rows], tokens }))).url);
  const svg = (await saved(page, 'matrix', 'SVG')).bytes.toString();
  assert.ok(!svg.includes('<script') && svg.includes('&lt;script&gt;') && svg.includes('&amp;amp;'));
  assert.equal(await page.locator('#grid-section').isVisible(), false); // one layer
  await page.done();
});
