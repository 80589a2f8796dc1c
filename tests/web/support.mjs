// What the page's tests share: the program, one browser, pages that must not complain.
//
// MHA is the program; OUT the folder for pages and screenshots, where node_modules/ lies too.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import assert from 'node:assert/strict';

export const out = path.resolve(process.env.OUT);
const program = path.resolve(process.env.MHA);
const { chromium } = createRequire(`${out}/`)('playwright-core');

export const root = path.resolve(path.dirname(new URL(import.meta.url).pathname), '../..');
export const induction = ['data/induction', '--layer', 'all',
  'X=data/induction/hidden.npz:layers.{layer}', '--tokens', 'data/induction/tokens.json'];
export const layer1 = ['data/induction', '--layer', '1', 'X=data/induction/hidden.npz:layers.1'];

/// What the program prints.
export function mha(...words) {
  return execFileSync(program, words, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 });
}
/// The number that `show` prints of one cell.
export function shown(sources, head, query, key, stage = 'weights') {
  return JSON.parse(mha('show', ...sources, '--quiet', '--stage', stage, '--head', `${head}`,
    '--query', `${query}`, '--key', `${key}`, '--format', 'json').replace(/("data": )([^"}]+)/, '$1"$2"'))[stage].data;
}
/// Writes a page and returns its address.
export function report(name, ...words) {
  const file = path.join(out, `${name}.html`);
  mha('report', ...words, '--quiet', '-o', file);
  return { url: pathToFileURL(file).href, bytes: fs.statSync(file).size };
}
export function write(name, data) {
  const file = path.join(out, name);
  fs.writeFileSync(file, data);
  return file;
}
/// Float32 numbers as .npy.
export function npy(shape, numbers) {
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`;
  header = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + '\n';
  const start = Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), Buffer.alloc(2)]);
  start.writeUInt16LE(header.length, 8);
  return Buffer.concat([start, Buffer.from(header), Buffer.from(Float32Array.from(numbers).buffer)]);
}

let browser;
export async function startBrowser() {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking'],
  });
}
export async function stopBrowser() {
  await browser.close();
}

/// A page at an address, in a window of its own; check() after it that nothing complained and that
/// nothing was asked of a network.
export async function open(url, { theme = 'light', width = 1400, height = 1000, touch = false, svg = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, hasTouch: touch });
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => {
    if (!message.text().includes('willReadFrequently')) // tests look at pixels, readers do not
      complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!request.url().startsWith('file:')) complaints.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  if (!svg) await page.locator('html[data-ready]').waitFor({ state: 'attached' });
  return Object.assign(page, {
    async settled(place) {
      await page.locator(`html[data-ready="${place}"]`).waitFor({ state: 'attached' });
    },
    async done() {
      assert.deepEqual(complaints, []);
      await context.close();
    },
  });
}

/// Puts the pointer on a cell of the matrix; where a pixel is several cells, on its pixel.
export async function hoverCell(page, query, key) {
  const marks = page.locator('#matrix .marks');
  await marks.scrollIntoViewIfNeeded();
  const box = await marks.boundingBox();
  const place = JSON.parse(await marks.getAttribute('data-place'));
  await page.mouse.move(box.x + place.left + (key - place.k + 0.5) * place.cell,
    box.y + place.top + (query - place.q + 0.5) * place.cell);
}
export const texts = (locator) => locator.allTextContents();
/// The words of the address behind its #.
export const fragment = (page) => Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.slice(1)));
