// How the page looks: scales, colours, rows of heads, labels and fingers.

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fragment, npy, open, out, report, startBrowser, stopBrowser, texts, write } from './support.mjs';

before(startBrowser);
after(stopBrowser);

/// Saved maps of layers × heads, not causal; the largest weight of a head is peak(layer, head).
function saved(name, layers, heads, tokens, peak) {
  const numbers = [];
  for (let l = 0; l < layers; ++l)
    for (let h = 0; h < heads; ++h)
      for (let q = 0; q < tokens; ++q)
        for (let k = 0; k < tokens; ++k)
          numbers.push(k === q ? peak(l, h) : (1 - peak(l, h)) / (tokens - 1));
  return [`weights=${write(`${name}.npy`, npy([layers, heads, tokens, tokens], numbers))}@LHTS`, '--layer', 'all'];
}
/// The colour of the largest weight in a head's small map, which is drawn where it is in view.
async function colorOf(page, card) {
  await page.locator('.card').nth(card).scrollIntoViewIfNeeded();
  await page.waitForTimeout(150);
  return page.evaluate(`(() => {
    const canvas = document.querySelectorAll('.card canvas')[${card}];
    return [...canvas.getContext('2d').getImageData(3, 3, 1, 1).data].slice(0, 3);
  })()`);
}
/// CIE 1976 L*, a*, b*.
function lab([r, g, b]) {
  const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const [x, y, z] = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    .map((row) => row[0] * linear(r) + row[1] * linear(g) + row[2] * linear(b));
  const f = (t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const [fx, fy, fz] = [f(x / 0.95047), f(y), f(z / 1.08883)];
  return [116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)];
}
const distance = (a, b) => Math.hypot(...lab(a).map((value, i) => value - lab(b)[i]));

test('small maps have one scale, which is said; each its own is a choice', async () => {
  const sources = saved('scale', 2, 2, 8, (l, h) => [[0.9, 0.3], [0.6, 0.2]][l][h]);
  const page = await open(report('scale', ...sources).url);
  const scale = async () => (await page.locator('.scale').textContent()).replace(/\s+/g, ' ').trim();
  assert.match(await scale(), /^0 0\.900 · the same in every small map$/);
  await page.waitForTimeout(200);
  // 0.9 is the lightest, 0.3 a third of the way: as dark as that of another layer's.
  const first = lab(await colorOf(page, 0))[0], second = lab(await colorOf(page, 1))[0];
  assert.ok(first > 85, `${first}`);
  assert.ok(second < 55, `${second}`);
  await page.locator('#scope').selectOption('all');
  await page.waitForTimeout(300);
  const lights = [];
  for (const card of [3, 1, 2, 0]) lights.push(lab(await colorOf(page, card))[0]); // 0.2, 0.3, 0.6, 0.9
  assert.deepEqual(lights, lights.slice().sort((a, b) => a - b));
  assert.ok(lights[0] + 5 < lights[1] && lights[1] + 20 < lights[2]);
  await page.locator('#range').selectOption('own');
  await page.waitForTimeout(300);
  assert.match(await scale(), /each small map by itself/);
  assert.equal(fragment(page).range, 'own');
  for (const card of [0, 1, 2, 3]) assert.ok(lab(await colorOf(page, card))[0] > 85, `head ${card}`);
  await page.locator('#colors').selectOption('log');
  assert.match(await scale(), /logarithmic/);
  await page.done();
});

test('a sink is told where the first key has more than a third of a long map', async () => {
  const sink = (name, tokens, share) => {
    const rows = Array.from({ length: tokens }, () => Array.from({ length: tokens }, (_, k) => (k === 0 ? share : (1 - share) / (tokens - 1))));
    return report(name, write(`${name}.json`, JSON.stringify({ weights: [rows, rows] }))).url;
  };
  for (const [name, tokens, share, told] of [['sunk', 24, 0.6, /· key 0 has 60 % of the weight: a sink$/],
    ['even', 24, 0.3, /^((?!sink).)*$/], ['brief', 6, 0.9, /^((?!sink).)*$/]]) {
    const page = await open(sink(name, tokens, share));
    assert.match(await page.locator('#headline').textContent(), told);
    await page.done();
  }
});

test('144 heads stand a row a layer, with their count', async () => {
  const sources = saved('layers', 12, 12, 6, (l, h) => 0.3 + (l * 12 + h) / 300);
  const { url } = report('layers', ...sources);
  for (const [width, theme] of [[1440, 'light'], [390, 'dark']]) {
    const page = await open(`${url}#scope=all`, { width, theme, touch: width === 390 });
    assert.equal(await page.locator('#heads-count').textContent(), '144 in 12 layers');
    const places = await page.locator('#heads .card').evaluateAll((cards) => cards.map((card) => {
      const { left, top, width: wide } = card.getBoundingClientRect();
      return [card.dataset.place, Math.round(left), Math.round(top), wide];
    }));
    assert.equal(places.length, 144);
    const rows = new Set(places.map(([, , top]) => top)), columns = new Set(places.map(([, left]) => left));
    assert.equal(rows.size, 12);
    assert.equal(columns.size, 12);
    for (const [place, left, top] of places) {
      const [layer, head] = place.split(' ').map(Number);
      assert.equal([...rows].sort((a, b) => a - b)[layer], top);
      assert.equal([...columns].sort((a, b) => a - b)[head], left);
    }
    if (width === 390) assert.ok(places.every(([, , , wide]) => wide >= 44));
    else assert.ok(places.every(([, left, , wide]) => left + wide <= width)); // all in one look
    assert.deepEqual(await texts(page.locator('.row-name')), Array.from({ length: 12 }, (_, l) => `L${l}`));
    assert.match(await page.locator('.card').nth(17).getAttribute('title'), /^layer 1 · head 5/);
    assert.ok(await page.evaluate('document.documentElement.scrollWidth') <= width);
    await page.screenshot({ path: path.join(out, `looks-layers-${width}.png`), fullPage: true });
    // By a measure they stand in its order, with their names.
    await page.locator('#sort').selectOption('self');
    await page.waitForTimeout(200);
    assert.equal((await texts(page.locator('#heads .card-name')))[0], 'L11 H11');
    assert.equal(await page.locator('.row-name').count(), 0);
    await page.locator('#scope').selectOption('layer');
    await page.waitForTimeout(200);
    assert.equal(await page.locator('#heads-count').textContent(), '12 of 144');
    await page.done();
  }
});

test('the lines of many heads have colours that are told apart, in both themes', async () => {
  const { url } = report('colours', ...saved('colours', 1, 64, 4, (_, h) => 0.3 + h / 100), '--quiet');
  for (const theme of ['light', 'dark']) {
    const page = await open(url, { theme });
    const colors = await page.locator('.square').evaluateAll((list) => list.map((square) =>
      getComputedStyle(square).borderTopColor.match(/\d+/g).map(Number)));
    const paper = await page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)");
    assert.equal(colors.length, 64);
    const nearest = (list) => Math.min(...list.flatMap((a, i) => list.slice(0, i).map((b) => distance(a, b))));
    assert.ok(nearest(colors.slice(0, 12)) > 14, `12 heads: ${nearest(colors.slice(0, 12))}`);
    assert.ok(nearest(colors.slice(0, 32)) > 9, `32 heads: ${nearest(colors.slice(0, 32))}`);
    assert.ok(nearest(colors) > 5, `64 heads: ${nearest(colors)}`);
    for (const color of colors) assert.ok(distance(color, paper) > 25, `${color} on ${paper}`);
    await page.done();
  }
});

test('labels keep their beginnings, wide ones too', async () => {
  const tokens = ['我们', '中华人民共和国成立纪念日', 'the very long label of a token', '是', 'שלום עולם', 'x'];
  const weights = [tokens.map((_, q) => tokens.map((__, k) => (k <= q ? 1 / (q + 1) : 0)))];
  const file = write('wide.json', JSON.stringify({ weights, tokens }));
  const page = await open(`${report('wide', file).url}#query=1&pin=query`);
  // Of the matrix's row labels nothing is drawn where the picture begins: none is cut there.
  const ink = await page.evaluate(`(() => {
    const canvas = document.querySelector('#matrix canvas'), context = canvas.getContext('2d');
    const left = context.getImageData(0, 0, 1, canvas.height).data, top = context.getImageData(0, 0, canvas.width, 1).data;
    const inked = (data) => data.some((value, i) => i % 4 === 3 && value > 60);
    return [inked(left), inked(top)];
  })()`);
  assert.deepEqual(ink, [false, false]);
  for (const side of ['query', 'key']) {
    const begins = await page.locator(`.tokens.${side} bdi`).evaluateAll((list) => list.map((one) => {
      const range = document.createRange();
      range.setStart(one.firstChild, 0);
      range.setEnd(one.firstChild, 1);
      const letter = range.getBoundingClientRect(), box = one.getBoundingClientRect();
      return letter.width > 0 && letter.left >= box.left - 1 && letter.right <= box.right + 1;
    }));
    assert.ok(begins.every((seen) => seen), `${side}: ${begins}`);
  }
  await page.screenshot({ path: path.join(out, 'looks-wide.png') });
  await page.done();
});

test('on a phone α and its bars are in view, and squares are met by a finger', async () => {
  const X = Array.from({ length: 9 * 24 }, (_, i) => Math.sin(i * 7.3) * 20);
  const W = (seed) => Array.from({ length: 24 * 24 }, (_, i) => Math.sin(i * seed + seed));
  const names = ['X', 'W_q', 'W_k', 'W_v'].map((name, i) =>
    `${name}=${write(`phone-${name}.npy`, npy(name === 'X' ? [9, 24] : [24, 24], name === 'X' ? X : W(i + 1.7)))}`);
  const { url } = report('phone', ...names, '--num-heads', '12', '--tokens', 'a b c d e f g h anextraordinarilylongtoken', '--softcap', '300');
  for (const theme of ['light', 'dark']) {
    const page = await open(`${url}#query=8&pin=query`, { width: 390, height: 844, theme, touch: true });
    const boxes = await page.locator('#steps table.keys').first().evaluate((table) => ({
      table: table.parentElement.getBoundingClientRect().right,
      alpha: [...table.querySelectorAll('tbody .alpha')].map((cell) => cell.getBoundingClientRect().right),
      bars: [...table.querySelectorAll('tbody .bar-cell')].map((cell) => [cell.getBoundingClientRect().left, cell.getBoundingClientRect().right]),
      key: [...table.querySelectorAll('tbody .key')].map((cell) => cell.getBoundingClientRect().left),
      titles: [...table.querySelectorAll('th')].map((cell) => cell.textContent),
    }));
    assert.ok(boxes.titles.includes('α') && boxes.titles.length === 6, `${boxes.titles}`);
    assert.ok(boxes.alpha.length > 3);
    for (const right of boxes.alpha) assert.ok(right <= 390 && right > 200);
    for (const [left, right] of boxes.bars) assert.ok(right <= 390 && right - left >= 50, `${left} to ${right}`);
    for (const left of boxes.key) assert.ok(left >= 0);
    const squares = await page.locator('.square').evaluateAll((list) => list.map((one) => {
      const { width, height, left, top } = one.getBoundingClientRect();
      return [width, height, left, top];
    }));
    assert.equal(squares.length, 12);
    assert.deepEqual(await texts(page.locator('.square')), Array.from({ length: 12 }, (_, h) => `${h}`));
    for (const [width, height, left] of squares) assert.ok(width >= 40 && height >= 40 && left + width <= 390);
    await page.locator('.square').nth(7).tap();
    await page.locator('.square[aria-label="Lines of head 7"][aria-pressed="true"]').waitFor();
    for (const selector of ['#theme', '#next', '#query-up', '#sort'])
      assert.ok((await page.locator(selector).boundingBox()).height >= 40, selector);
    assert.ok(await page.evaluate('document.documentElement.scrollWidth') <= 390);
    await page.screenshot({ path: path.join(out, `looks-phone-${theme}.png`), fullPage: true });
    await page.done();
  }
});

test('what goes on to the right is faded there, until it is seen', async () => {
  const { url } = report('broad', ...saved('broad', 2, 32, 4, () => 0.7));
  for (const [width, cut] of [[1440, false], [390, true]]) {
    const page = await open(url, { width, touch: width === 390 });
    const faded = () => page.locator('#grid').evaluate((grid) => getComputedStyle(grid).maskImage !== 'none');
    assert.equal(await faded(), cut, `${width}`);
    await page.locator('#grid').evaluate((grid) => grid.scrollTo({ left: 10000 }));
    await page.waitForTimeout(200);
    assert.equal(await faded(), false);
    await page.done();
  }
});
