// The page of `mha-inspect report`, as its reader has it: opened from disk in a browser.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fragment, hoverCell, induction, layer1, mha, npy, open, out, report, root, shown, startBrowser, stopBrowser,
  texts, write } from './support.mjs';

let model;
before(async () => {
  model = report('induction', ...induction);
  await startBrowser();
});
after(stopBrowser);

test('opens without a complaint and without a network, in both themes', async () => {
  for (const theme of ['light', 'dark']) {
    const page = await open(`${model.url}#layer=1&head=0&query=17&key=2&pin=query`, { theme });
    assert.equal(await page.locator('html').getAttribute('data-theme'), theme);
    assert.equal(await page.locator('#heads .card').count(), 4);
    await page.screenshot({ path: path.join(out, `report-${theme}.png`), fullPage: true });
    await page.done();
  }
});

test('the theme can be chosen, and the address keeps it', async () => {
  const page = await open(model.url, { theme: 'light' });
  await page.locator('#theme').click();
  await page.locator('html[data-theme="dark"]').waitFor({ state: 'attached' });
  assert.equal(fragment(page).theme, 'dark');
  await page.keyboard.press('t');
  await page.locator('html[data-theme="light"]').waitFor({ state: 'attached' });
  await page.done();
});

test('hovering a cell shows the value that show prints', async () => {
  const page = await open(`${model.url}#layer=1&head=2`);
  await page.settled('1 2');
  for (const [query, key] of [[17, 2], [0, 0], [32, 5], [20, 5], [4, 30]]) {
    await hoverCell(page, query, key);
    assert.equal(await page.locator('#tip strong').textContent(), shown(layer1, 2, query, key));
    assert.match(await page.locator('#cell').textContent(), new RegExp(`^query ${query} .*key ${key} `));
  }
  assert.match(await page.locator('#tip').textContent(), /hidden by the mask/); // key 30 of query 4
  await page.done();
});

test('hovering shows the numbers of double precision whole, and those of other stages', async () => {
  const source = ['data/quickstart.json'];
  const page = await open(`${report('quickstart', ...source).url}#head=1&stage=masked`);
  await page.settled('0 1');
  await hoverCell(page, 2, 1);
  assert.equal(await page.locator('#tip strong').textContent(), shown(source, 1, 2, 1, 'masked'));
  await page.locator('#stage').selectOption('weights');
  await page.waitForTimeout(100);
  await hoverCell(page, 1, 2);
  assert.equal(await page.locator('#tip strong').textContent(), shown(source, 1, 1, 2));
  await page.done();
});

test('a token is pinned by a click, and let go by another or by Escape', async () => {
  const page = await open(`${model.url}#layer=1&head=0`);
  await page.settled('1 0');
  const query = page.locator('.tokens.query .token[data-index="17"]');
  await query.click();
  await page.mouse.move(5, 5);
  await page.locator('.tokens.query .token.strong[data-index="17"]').waitFor();
  assert.equal(await page.locator('.tokens.key .token[data-index="2"] .weight').textContent(), '0.973');
  assert.equal(await page.locator('#query-title').textContent(), "Query 17 't9'");
  assert.equal(fragment(page).pin, 'query');
  await query.click();
  await page.mouse.move(5, 5);
  await page.locator('.token.strong').waitFor({ state: 'detached' });
  assert.equal(fragment(page).pin, undefined);
  // A key shows who looks at it.
  await page.locator('.tokens.key .token[data-index="2"]').click();
  await page.mouse.move(5, 5);
  assert.equal(await page.locator('.tokens.query .token[data-index="17"] .weight').textContent(), '0.973');
  await page.keyboard.press('Escape');
  await page.locator('.token.strong').waitFor({ state: 'detached' });
  // A cell pins its query and its key.
  await hoverCell(page, 20, 5);
  await page.mouse.down();
  await page.mouse.up();
  await page.locator('tr.chosen .number', { hasText: /^5$/ }).waitFor();
  assert.equal(fragment(page).query, '20');
  assert.match(await page.locator('.arithmetic').textContent(), /^q·k of key 5: /);
  await page.done();
});

test('the steps are those that explain tells', async () => {
  // A bias and a cap between scores and masked; and a trained head, where nothing is.
  const file = write('biased.json', JSON.stringify({
    ...JSON.parse(fs.readFileSync(path.join(root, 'data/quickstart.json'))),
    softcap: 1.5, causal: true, bias: [[[0.5, 0, 0.25], [0, 1, 0], [-1, 0.125, 0]]],
  }));
  const cases = [
    { name: 'biased', sources: [file], query: 2, head: 1, place: '0 1' },
    { name: 'explained', sources: layer1, query: 17, head: 2, place: '0 2' },
  ];
  for (const { name, sources, query, head, place } of cases) {
    const page = await open(`${report(name, ...sources).url}#head=${head}&query=${query}&pin=query`);
    await page.settled(place);
    const story = JSON.parse(mha('explain', ...sources, '--quiet', '--query', `${query}`, '--head', `${head}`,
      '--format', 'json')).heads[0];
    await page.locator('#steps .link', { hasText: 'show all' }).click({ timeout: 500 }).catch(() => {});
    const titles = await texts(page.locator('#steps thead th'));
    assert.deepEqual(titles, ['key', 'q·k', 'scaled', 'masked', 'α', '']);
    const rows = await page.locator('#steps tbody tr').evaluateAll((list) =>
      list.map((row) => [...row.cells].map((cell) => (cell.querySelector('.number') || cell).textContent)));
    let compared = 0;
    for (const key of story.keys) {
      const row = rows.find(([number]) => Number(number) === key.key);
      if (key.masked) continue;
      const wanted = [key.score, key.scaled, key.logit, key.weight];
      wanted.forEach((value, i) => {
        const got = Number(row[i + 1].replace('−', '-'));
        assert.ok(Math.abs(got - value) <= 6e-4 * Math.max(0.1, Math.abs(value)), `${titles[i + 1]} of key ${key.key}: ${row[i + 1]}, not ${value}`);
      });
      ++compared;
    }
    assert.ok(compared > 2);
    const sentence = await page.locator('.step p').last().textContent();
    assert.ok(sentence.includes(`${(100 * story.share).toFixed(1).replace('-', '−')} %`), sentence);
    await page.done();
  }
});

test('the squares above the lines add the lines of other heads', async () => {
  const page = await open(`${model.url}#layer=0&head=0`);
  const inked = () => page.evaluate(`(() => {
    const canvas = document.querySelector('.lines canvas');
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colors = new Set();
    for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 200) colors.add([pixels[i] >> 5, pixels[i + 1] >> 5, pixels[i + 2] >> 5].join());
    return colors.size;
  })()`);
  const one = await inked();
  await page.locator('.square[aria-label="Lines of head 2"]').click();
  await page.locator('.square[aria-label="Lines of head 2"][aria-pressed="true"]').waitFor();
  assert.equal(fragment(page).also, '2');
  assert.ok((await inked()) > one); // a second colour
  await page.locator('.square[aria-label="Lines of head 2"]').click();
  await page.locator('.square[aria-label="Lines of head 2"][aria-pressed="false"]').waitFor();
  assert.equal(await inked(), one);
  await page.done();
});

test('heads are sorted by any measure, as stats sorts them', async () => {
  const page = await open(model.url);
  const names = await texts(page.locator('#heads .card-name'));
  assert.deepEqual(names, ['head 0', 'head 1', 'head 2', 'head 3']);
  const rows = JSON.parse(mha('stats', ...induction, '--quiet', '--format', 'json'));
  await page.locator('#scope').selectOption('all');
  await page.locator('#order').click(); // and smallest first
  for (const measure of ['induction', 'entropy']) {
    await page.locator('#sort').selectOption(measure);
    await page.waitForTimeout(150);
    const wanted = rows.slice().sort((a, b) => a[measure] - b[measure]).map((row) => `L${row.layer} H${row.head}`);
    assert.deepEqual(await texts(page.locator('#heads .card-name')), wanted);
  }
  assert.ok((await page.locator('#sort option').count()) > 15);
  await page.done();
});

test('several layers: chosen from the list, or from the grid of all', async () => {
  const page = await open(model.url);
  await page.locator('#layer').selectOption({ label: '1' });
  await page.settled('1 0');
  assert.match(await page.locator('#headline').textContent(), /layer 1/);
  await page.locator('#scope').selectOption('all');
  await page.locator('.card', { hasText: 'L0 H3' }).click();
  await page.settled('0 3');
  assert.equal(await page.locator('#head-title').textContent(), 'Layer 0 · head 3');
  await page.done();
});

test('the keyboard moves through heads, queries, keys and layers', async () => {
  const page = await open(`${model.url}#query=17`);
  await page.keyboard.press('ArrowRight');
  await page.settled('0 1');
  await page.keyboard.press(']');
  await page.settled('1 1');
  await page.keyboard.press('ArrowLeft');
  await page.settled('1 0');
  await page.keyboard.press('ArrowDown'); // pins the query that is there
  await page.keyboard.press('ArrowDown');
  await page.locator('#query-title', { hasText: 'Query 18' }).waitFor();
  await page.keyboard.press('Shift+ArrowRight');
  await page.locator('#cell', { hasText: 'key 0' }).waitFor();
  await page.keyboard.press('Home');
  await page.locator('#query-title', { hasText: 'Query 0' }).waitFor();
  await page.keyboard.press('?');
  await page.locator('#help-text').waitFor({ state: 'visible' });
  await page.keyboard.press('Escape');
  await page.locator('#help-text').waitFor({ state: 'hidden' });
  assert.equal(fragment(page).pin, 'query'); // Escape closed the help, nothing else
  // What has the focus can be seen.
  await page.keyboard.press('Tab');
  const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle');
  assert.equal(outline, 'solid');
  await page.done();
});

test('the address restores what was looked at', async () => {
  const first = await open(model.url);
  await first.locator('#layer').selectOption({ label: '1' });
  await first.locator('#sort').selectOption('induction');
  await first.locator('#colors').selectOption('log');
  await first.locator('.card').nth(2).click();
  await first.locator('.tokens.query .token[data-index="21"]').click();
  await first.locator('#query-title', { hasText: 'Query 21' }).waitFor();
  await first.waitForTimeout(100);
  const address = first.url();
  const title = await first.locator('#head-title').textContent();
  await first.done();
  const second = await open(address);
  await second.locator('#query-title', { hasText: 'Query 21' }).waitFor();
  assert.equal(await second.locator('#head-title').textContent(), title);
  assert.equal(await second.locator('#sort').inputValue(), 'induction');
  assert.equal(await second.locator('#colors').inputValue(), 'log');
  assert.equal(await second.locator('.tokens.query .token.strong').getAttribute('data-index'), '21');
  // Nonsense in the address is passed over.
  await second.goto('about:blank');
  await second.goto(`${model.url}#layer=9&head=x&query=99999&key=-3&pin=both&sort=%3Cb%3E&stage=q&theme=blue`);
  await second.locator('html[data-ready="0 0"]').waitFor({ state: 'attached' });
  assert.equal(await second.locator('#query-title').textContent(), "Query 32 't52'");
  await second.done();
});

test('a malicious token is a token', async () => {
  const tokens = ['<script>alert(1)</script>', '</script><img src=x onerror=alert(2)>', `"'&<b>`, '😀👩‍👩‍👧',
    'שלום\u202eabc', '\u2028line\n\ttab\u0000', '-->', '<!--<script>', ']]>', '${alert(3)}'];
  const rows = tokens.map((_, q) => tokens.map((__, k) => (k <= q ? 1 / (q + 1) : 0)));
  const file = write('malicious.json', JSON.stringify({ weights: [rows], tokens }));
  const page = await open(report('malicious', file).url);
  const labels = await texts(page.locator('.tokens.query bdi'));
  assert.equal(labels[0], tokens[0]);
  assert.equal(labels[2], tokens[2]);
  assert.equal(labels[3], tokens[3]);
  assert.ok(!labels[4].includes('\u202e'));
  assert.equal(await page.locator('img, b, script:not(head script):not(body > script)').count(), 0);
  await page.locator('.tokens.query .token').nth(1).click();
  await page.locator('#query-title', { hasText: tokens[1] }).waitFor();
  await hoverCell(page, 5, 4);
  await page.screenshot({ path: path.join(out, 'report-malicious.png'), fullPage: true });
  await page.done();
});

test('weights alone make the same page without the steps', async () => {
  const numbers = [];
  for (let h = 0; h < 3; ++h)
    for (let q = 0; q < 7; ++q)
      for (let k = 0; k < 11; ++k) numbers.push((1 + ((h + 2 * q + 3 * k) % 5)) / 100);
  const file = write('weights.npy', npy([3, 7, 11], numbers));
  const page = await open(`${report('weights', `weights=${file}`).url}#head=2`);
  await hoverCell(page, 6, 10);
  assert.equal(await page.locator('#tip strong').textContent(), shown([`weights=${file}`], 2, 6, 10));
  assert.deepEqual(await texts(page.locator('.step h3')), ['1Weightsα, the largest first']);
  assert.equal(await page.locator('#outputs').isVisible(), false);
  await page.screenshot({ path: path.join(out, 'report-weights.png'), fullPage: true });
  await page.done();
});

test('what is no number is seen, and read', async () => {
  const file = write('nan.json', JSON.stringify({ weights: [[['NaN', 'NaN'], [0.25, 0.75]]] }));
  const page = await open(report('nan', file).url);
  await hoverCell(page, 0, 1);
  assert.equal(await page.locator('#tip strong').textContent(), 'nan');
  const color = (query, key) => page.evaluate(`(() => {
    const place = JSON.parse(document.querySelector('#matrix .marks').dataset.place);
    const at = (first, i) => Math.round((first + (i + 0.5) * place.cell) * devicePixelRatio);
    const canvas = document.querySelector('#matrix canvas');
    return [...canvas.getContext('2d').getImageData(at(place.left, ${key}), at(place.top, ${query}), 1, 1).data].join();
  })()`);
  assert.equal(await color(0, 1), await color(0, 0));
  assert.notEqual(await color(0, 1), await color(1, 0));
  assert.equal(await color(0, 1), '217,72,15,255'); // the colour of marks
  await page.done();
});

test('a layer of 12 heads and 64 tokens is a page of less than 1 MB', async () => {
  const random = lcg(1);
  const names = ['Q', 'K', 'V'].map((name) => `${name}=${write(`${name}64.npy`, npy([64, 768], Array.from({ length: 64 * 768 }, random)))}`);
  const { url, bytes } = report('twelve', ...names, '--num-heads', '12');
  assert.ok(bytes < 1e6, `${bytes} bytes`);
  const page = await open(url);
  assert.equal(await page.locator('#heads .card').count(), 12);
  await hoverCell(page, 63, 31);
  assert.equal(await page.locator('#tip strong').textContent(), shown([...names, '--num-heads', '12'], 0, 63, 31));
  await page.screenshot({ path: path.join(out, 'report-twelve.png'), fullPage: true });
  await page.done();
});

test('of 1,024 tokens only what is looked at is unpacked; rounded weights say so; zoom shows cells', async () => {
  const random = lcg(2);
  const names = ['q', 'k', 'v'].map((name) => `${name}=${write(`${name}1024.npy`, npy([4, 1024, 8],
    Array.from({ length: 4 * 1024 * 8 }, () => 2 * random())))}`);
  const { url, bytes } = report('long', ...names, '--causal', '--max-size', '12');
  assert.ok(bytes < 12e6, `${bytes} bytes`);
  const page = await open(url);
  // The small maps of four heads; weights, q, k and v of one, then of another.
  const unpacked = async () => Number(await page.locator('html').getAttribute('data-unpacked'));
  assert.equal(await unpacked(), 4 + 4);
  await page.keyboard.press('ArrowRight');
  await page.settled('0 1');
  assert.equal(await unpacked(), 4 + 8);
  // Tokens that are not in view are not built.
  assert.ok((await page.locator('.token').count()) < 200);
  assert.match(await page.locator('#footer').textContent(), /rounded to 16 bits/);
  await page.locator('#zoom').selectOption('24');
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.waitForTimeout(150);
  await hoverCell(page, 1, 1);
  const value = Number((await page.locator('#tip strong').textContent()).replace('≈ ', ''));
  assert.ok(Math.abs(value - Number(shown([...names, '--causal'], 1, 1, 1))) < 1e-4);
  await page.screenshot({ path: path.join(out, 'report-long.png') });
  await page.done();
});

test('where not even rounded weights fit, the largest of each query are exact', async () => {
  const names = ['q', 'k', 'v'].map((name) => `${name}=${path.join(out, `${name}1024.npy`)}`);
  const { url, bytes } = report('peaks', ...names, '--causal', '--max-size', '1.5');
  assert.ok(bytes < 1.5e6, `${bytes} bytes`);
  const page = await open(`${url}#head=2&query=700&pin=query`);
  await page.settled('0 2');
  assert.match(await page.locator('#footer').textContent(), /largest weights are exact/);
  const largest = page.locator('#steps tbody tr').first();
  const key = await largest.locator('.number').textContent();
  const weight = await largest.locator('.figure').last().textContent();
  assert.ok(await page.locator('.tokens.query .token.strong[data-index="700"]').isVisible());
  assert.equal(weight, Number(shown([...names, '--causal'], 2, 700, key)).toFixed(4));
  await page.screenshot({ path: path.join(out, 'report-peaks.png'), fullPage: true });
  await page.done();
});

/// Saved maps of many heads: causal, a different peak each.
function savedMaps(name, heads, tokens, peak = (q, h) => (q * (h + 1)) % (q + 1)) {
  const numbers = [];
  for (let h = 0; h < heads; ++h)
    for (let q = 0; q < tokens; ++q)
      for (let k = 0; k < tokens; ++k)
        numbers.push(k > q ? 0 : k === peak(q, h) ? 0.6 + (0.4 / (q + 1)) : 0.4 / (q + 1));
  return `weights=${write(name, npy([heads, tokens, tokens], numbers))}`;
}
/// Whether an element's top is in the window, and how far down.
const topOf = (page, selector) => page.evaluate(
  `document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect().top`);
async function untilStill(page, selector) {
  let before = NaN, now = await topOf(page, selector);
  for (let i = 0; i < 60 && before !== now; ++i) {
    await page.waitForTimeout(80);
    [before, now] = [now, await topOf(page, selector)];
  }
  return now;
}

test('choosing one of 144 heads goes to its maps, and back to all heads', async () => {
  const { url } = report('many', savedMaps('many.npy', 144, 12));
  for (const width of [1400, 390]) {
    const page = await open(url, { width, height: 900 });
    await page.screenshot({ path: path.join(out, `report-many-${width}.png`) });
    assert.ok(await topOf(page, '#head-section') < 900, 'many heads scroll by themselves');
    await page.locator('.card').nth(100).scrollIntoViewIfNeeded();
    await page.locator('.card').nth(100).click();
    await page.settled('0 100');
    const top = await untilStill(page, '#head-section');
    assert.ok(top >= -1 && top < 0.4 * 900, `${top}`);
    assert.equal(await page.locator('#head-title').textContent(), 'Head 100');
    await page.screenshot({ path: path.join(out, `report-many-chosen-${width}.png`) });
    // The keyboard goes on from there, and the chosen card is in view when one comes back.
    await page.keyboard.press('ArrowRight');
    await page.settled('0 101');
    assert.ok(Math.abs(await untilStill(page, '#head-section') - top) < 2);
    await page.locator('#to-heads').click();
    await untilStill(page, '#heads-section');
    assert.ok(await page.evaluate(`(() => {
      const box = document.getElementById('heads').getBoundingClientRect();
      const card = document.querySelector('.card[aria-pressed="true"]').getBoundingClientRect();
      return card.top >= box.top - 1 && card.bottom <= box.bottom + 1;
    })()`));
    await page.done();
  }
});

test('of several heads in the lines each has its numbers', async () => {
  const page = await open(`${model.url}#layer=1&head=0&query=17&pin=query&also=1`);
  await page.settled('1 0');
  await page.mouse.move(5, 5);
  const numbers = (key) => texts(page.locator(`.tokens.key .token[data-index="${key}"] .weight`));
  const wanted = (key, digits) => [0, 1].map((head) => {
    const weight = Number(shown(layer1, head, 17, key));
    return weight >= 0.0005 ? weight.toFixed(digits) : '';
  });
  for (const key of [2, 0, 16, 17]) assert.deepEqual(await numbers(key), wanted(key, 3));
  const colors = await page.locator('.tokens.key .token[data-index="2"] .weight').evaluateAll(
    (list) => list.map((cell) => [getComputedStyle(cell).color, cell.title].join()));
  assert.equal(new Set(colors).size, 2);
  // They stand in columns: the same places in every row.
  const places = await page.locator('.tokens.key .token').evaluateAll((rows) => rows.map((row) =>
    [...row.querySelectorAll('.weight')].map((cell) => Math.round(cell.getBoundingClientRect().right)).join()));
  assert.equal(new Set(places).size, 1);
  // So do their positions.
  for (const side of ['query', 'key'])
    assert.equal(new Set(await page.locator(`.tokens.${side} .number`).evaluateAll((cells) =>
      cells.map((cell) => Math.round(cell.getBoundingClientRect().right)))).size, 1);
  // Four heads: fewer digits. Of a key, those of the queries that look at it.
  for (const head of [2, 3]) await page.locator(`.square[aria-label="Lines of head ${head}"]`).click();
  await page.mouse.move(5, 5);
  await page.locator('.tokens.key .token[data-index="2"] .weight:nth-child(4)').waitFor({ state: 'attached' });
  await page.screenshot({ path: path.join(out, 'report-several.png') });
  assert.equal((await numbers(2)).length, 4);
  assert.match((await numbers(2))[0], /^\.\d\d$/);
  assert.equal(await page.locator('#lines-note').isVisible(), false);
  await page.done();
});

test('numbers stay in their columns', async () => {
  const page = await open(`${model.url}#layer=1&head=0&query=17&key=2&pin=query`);
  await page.settled('1 0');
  // Points below each other: what follows them takes the same room.
  const columns = await page.locator('#steps tbody tr').evaluateAll((rows) => rows.map((row) =>
    [...row.querySelectorAll('.figure')].map((cell) => {
      const text = cell.textContent, range = document.createRange();
      if (!text.includes('.')) return null;
      const at = text.indexOf('.');
      range.setStart(cell.firstChild, at);
      range.setEnd(cell.firstChild, at + 1);
      return Math.round(range.getBoundingClientRect().left);
    })));
  for (let column = 0; column < columns[0].length; ++column) {
    const places = columns.map((row) => row[column]).filter((place) => place !== null);
    assert.ok(Math.max(...places) - Math.min(...places) <= 1, `column ${column}: ${places}`);
  }
  const cells = await page.locator('.vectors .vector-numbers').evaluateAll((rows) => rows.map((row) =>
    [...row.querySelectorAll('.cell')].slice(0, 4).map((cell) => Math.round(cell.getBoundingClientRect().right)).join()));
  assert.equal(new Set(cells).size, 1);
  // Lengths have three digits, as the numbers beside them.
  const lengths = await texts(page.locator('.vector-norm'));
  assert.ok(lengths.length > 2);
  for (const length of lengths) assert.match(length, /^length (\d\.\d\d|\d\d\.\d|\d{3,}|0\.\d{3}|\d\.\d\de[+-]\d+)$/);
  await page.done();
});

test('what a finger touched is let go: by the next touch, by scrolling, after a while', async () => {
  const page = await open(`${model.url}#layer=1&head=0`, { width: 390, height: 844, touch: true });
  await page.settled('1 0');
  const tip = page.locator('#tip');
  const tapCell = async (query, key) => {
    const marks = page.locator('#matrix .marks');
    await marks.scrollIntoViewIfNeeded();
    const box = await marks.boundingBox();
    const place = JSON.parse(await marks.getAttribute('data-place'));
    await page.touchscreen.tap(box.x + place.left + (key + 0.5) * place.cell, box.y + place.top + (query + 0.5) * place.cell);
  };
  await tapCell(20, 5);
  await page.locator('#cell', { hasText: 'query 20' }).waitFor(); // what is pinned is read below
  await page.locator('#head-title').tap();
  await tip.waitFor({ state: 'hidden' });
  await tapCell(9, 3);
  await page.evaluate('window.scrollBy(0, 60)');
  await tip.waitFor({ state: 'hidden' });
  await tapCell(12, 1);
  await tip.waitFor({ state: 'hidden', timeout: 4000 });
  // No hover is left either: another pin shows.
  await page.locator('.tokens.query .token[data-index="3"]').tap();
  await page.locator('.tokens.query .token.strong[data-index="3"]').waitFor();
  assert.equal(await page.locator('.token.strong').count(), 1);
  await page.screenshot({ path: path.join(out, 'report-phone.png'), fullPage: true });
  const wider = await page.evaluate('document.documentElement.scrollWidth');
  assert.ok(wider <= 390, `${wider} pixels wide`);
  await page.done();
});

test('small maps and the matrix hide the same cells', async () => {
  const small = 24, long = 300;
  const bias = Array.from({ length: small }, (_, q) => Array.from({ length: small }, (__, k) => (k > q || (q > 4 && k % 5 === 2) ? -1e9 : 0)));
  const names = ['q', 'k', 'v'].map((name, i) => `${name}=${write(`${name}24.npy`, npy([2, small, 4], Array.from({ length: 2 * small * 4 }, lcg(i + 5))))}`);
  const cases = {
    gaps: [...names, `mask=${write('mask.json', JSON.stringify(bias))}`], // −1e9 with gaps
    causal: [...names, '--causal'],
    saved: [savedMaps('saved.npy', 2, small), '--causal'],
    'saved-long': [savedMaps('saved-long.npy', 2, long), '--causal'], // small maps are pooled
  };
  for (const [name, sources] of Object.entries(cases)) {
    const page = await open(`${report(`hidden-${name}`, ...sources).url}#head=1`, { height: 1600 });
    await page.settled('0 1');
    await page.locator('#cell').waitFor({ state: 'attached' });
    const size = name === 'saved-long' ? long : small;
    const { thumbnail, matrix } = await page.evaluate(`(() => {
      const size = ${size}, out = { thumbnail: [], matrix: [] };
      const small = document.querySelectorAll('.card canvas')[1], big = document.querySelector('#matrix canvas');
      const place = JSON.parse(document.querySelector('#matrix .marks').dataset.place);
      const none = getComputedStyle(document.documentElement).getPropertyValue('--hidden').trim();
      const rgb = [1, 3, 5].map((i) => parseInt(none.slice(i, i + 2), 16)).join();
      const smallPixels = small.getContext('2d'), bigPixels = big.getContext('2d');
      for (let i = 0; i < 12; ++i)
        for (let j = 0; j < 12; ++j) {
          // Of long maps away from the diagonal: a pool on it is seen by some of its queries.
          const q = Math.floor(((i + 0.5) * size) / 12), k = Math.floor(((j + 0.5) * size) / 12);
          if (size > 100 && Math.abs(q - k) < 8) continue;
          out.thumbnail.push(smallPixels.getImageData(Math.floor(((k + 0.5) * small.width) / size), Math.floor(((q + 0.5) * small.height) / size), 1, 1).data[3] === 0);
          const x = Math.round((place.left + (k + 0.5) * place.cell) * devicePixelRatio), y = Math.round((place.top + (q + 0.5) * place.cell) * devicePixelRatio);
          out.matrix.push([...bigPixels.getImageData(x, y, 1, 1).data.slice(0, 3)].join() === rgb);
        }
      return out;
    })()`);
    assert.deepEqual(thumbnail, matrix, name);
    assert.ok(thumbnail.includes(true) && thumbnail.includes(false), name);
    await hoverCell(page, 3, 2); // seen
    assert.equal(await page.locator('#tip', { hasText: 'hidden' }).count(), 0, name);
    await hoverCell(page, 3, size - 2);
    assert.match(await page.locator('#tip').textContent(), /hidden by the mask/, name);
    if (name === 'gaps') {
      await hoverCell(page, 20, 7);
      assert.match(await page.locator('#tip').textContent(), /hidden by the mask/);
    }
    await page.done();
  }
});

test('labels read as readers want them; JSON keeps them as they are', async () => {
  const tokens = ['Ġcat', '▁sat', '##ing', 'on</w>', 'Ċ', ' ', 'ĉ', 'ä¸Ń'];
  const rows = tokens.map((_, q) => tokens.map((__, k) => (k <= q ? 1 / (q + 1) : 0)));
  const file = write('tokens-marks.json', JSON.stringify({ weights: [rows], tokens }));
  const page = await open(report('marks', file).url);
  const wanted = ['cat', 'sat', 'ing', 'on', '⏎', '␣', '⇥', '中'];
  assert.deepEqual(await texts(page.locator('.tokens.query bdi')), wanted);
  await hoverCell(page, 7, 0);
  assert.match(await page.locator('#tip').textContent(), /query 7 '中'key 0 'cat'/);
  for (const token of tokens)
    assert.ok(mha('show', file, '--stage', 'weights', '--format', 'csv').includes(token.replace(/"/g, '""')) || /\s/.test(token));
  await page.done();
});

test('nothing overlaps or is cut off in windows of 800 and 390 pixels', async () => {
  for (const [width, theme] of [[800, 'light'], [390, 'dark']]) {
    const page = await open(`${model.url}#layer=1&query=17&pin=query&also=1,2`, { width, theme });
    const wider = await page.evaluate('document.documentElement.scrollWidth');
    assert.ok(wider <= width, `${wider} pixels wide`);
    await page.screenshot({ path: path.join(out, `report-narrow-${width}.png`), fullPage: true });
    await page.done();
  }
});

/// Numbers between -1 and 1, the same every time.
function lcg(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

test('tokens as columns: keys are the rows of the maps, as show prints them, and products are from the left', async () => {
  const source = ['data/columns.json'];
  const page = await open(`${report('columns', ...source).url}#head=0&query=2&key=1&pin=query`);
  await page.settled('0 0');
  for (const [query, key] of [[0, 1], [1, 0], [2, 1], [1, 2]]) {
    await hoverCell(page, key, query); // its row is a key
    assert.equal(await page.locator('#tip strong').textContent(), shown(source, 0, query, key));
  }
  assert.equal(await page.locator('#matrix-axes').textContent(), 'one row per key, one column per query');
  const steps = await page.locator('#steps').textContent();
  for (const formula of ['q = W_q x', 'k·q', 'head_out = Σ v α', 'head_result = W_o[h] head_out'])
    assert.ok(steps.includes(formula), formula);
  await page.done();
  const rows = await open(`${report('rows', 'data/quickstart.json').url}#head=0&query=2`);
  assert.equal(await rows.locator('#matrix-axes').textContent(), 'one row per query, one column per key');
  assert.ok((await rows.locator('#steps').textContent()).includes('q = x W_q'));
  await rows.done();
});

test('a mixture shows the experts of each token, and a layer without one does not', async () => {
  const source = ['data/bard-mixtral', '--text', 'To be, or not to be'];
  const page = await open(`${report('mixture', ...source, '--layer', '1').url}#head=1`);
  const weights = JSON.parse(mha('show', ...source, '--layer', '1', '--quiet', '--stage', 'routing', '--query', '2',
    '--format', 'json')).routing.data;
  assert.equal(weights.length, 8);
  assert.match(await page.locator('#experts-count').textContent(), /^2 of 8 for each token/);
  const canvas = page.locator('#experts canvas');
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  for (const [expert, weight] of weights.entries()) {
    await page.mouse.move(box.x + 96 + (expert + 0.5) * 28, box.y + 24 + 2.5 * 16);
    const tip = await page.locator('#tip').textContent();
    assert.match(tip, new RegExp(`token 2 .*expert ${expert}`));
    if (weight === 0) assert.match(tip, /not chosen/);
    else assert.ok(Math.abs(Number(/weight ([\d.]+)/.exec(tip)[1]) - weight) < 5e-4, tip);
  }
  await page.done();
  const dense = await open(model.url);
  assert.equal(await dense.locator('#experts-section').isVisible(), false);
  await dense.done();
});
