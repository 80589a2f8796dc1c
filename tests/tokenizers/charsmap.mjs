// A table of replacements as SentencePiece compiles it: a double array of what is replaced, then the
// replacements, each ended by a zero byte.

/// The table for {"what is replaced": "by what"}, in base64.
export function charsmap(replacements) {
  const units = new Uint32Array(1 << 13), taken = new Uint8Array(units.length);
  let text = Buffer.alloc(0);
  const root = { children: new Map() };
  for (const [key, value] of Object.entries(replacements)) {
    let node = root;
    for (const byte of Buffer.from(key)) node = node.children.get(byte) ?? node.children.set(byte, { children: new Map() }).get(byte);
    node.value = text.length;
    text = Buffer.concat([text, Buffer.from(value), Buffer.of(0)]);
  }
  taken[0] = 1;
  const place = (node, at) => {
    const labels = [...node.children.keys(), ...(node.value === undefined ? [] : [0])];
    let offset = 1;
    while (labels.some((label) => taken[at ^ offset ^ label])) ++offset;
    units[at] |= (offset << 10) | (node.value === undefined ? 0 : 0x100);
    for (const label of labels) taken[at ^ offset ^ label] = 1;
    if (node.value !== undefined) units[at ^ offset] = (0x80000000 | node.value) >>> 0;
    for (const [label, child] of node.children) {
      units[at ^ offset ^ label] = label;
      place(child, at ^ offset ^ label);
    }
  };
  place(root, 0);
  const head = Buffer.alloc(4);
  head.writeUInt32LE(units.byteLength);
  return Buffer.concat([head, Buffer.from(units.buffer), text]).toString('base64');
}

/// What NFKC would make of some characters, and what it would not.
export const replacements = { 'ﬁ': 'fi', '①': '1', '…': '...', '\u3000': ' ', '\u00a0': ' ', '\t': ' ', '\r': '', 'e\u0301': 'é', 'é': 'e', 'Å': 'Å',
  '日': '<day>', '日本': '<japan>', '👍': '+1', '👍🏽': '+2', '㌀': 'アパート', 'ａ': 'a', '１': '1', 'x': 'y', 'of': 'OF', '\u200b': '', '½': '1/2', 'ก็': 'k', '\u1100\u1161\u11a8': '각' };
