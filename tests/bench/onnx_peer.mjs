// ONNX Runtime as a peer: loads a model and X, then answers lines of JSON on standard input, as serve.py says.
//   node onnx_peer.mjs MODULES MODEL X.npy THREADS fresh|given
// fresh: every run returns new arrays. given: the results are written to the same arrays again and again.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { createRequire } from "node:module";

const [modules, model, inputFile, threads, arrays] = process.argv.slice(2);
const ort = createRequire(path.join(path.resolve(modules), "x"))("onnxruntime-node");

/** A float32 .npy file in C order. */
function readArray(file) {
  const bytes = fs.readFileSync(file);
  const start = 10 + bytes.readUInt16LE(8);
  const header = bytes.toString("latin1", 10, start);
  const dims = header.match(/'shape': \(([^)]*)\)/)[1].split(",").filter((n) => n.trim()).map(Number);
  return new ort.Tensor("float32", new Float32Array(bytes.buffer.slice(bytes.byteOffset + start)), dims);
}

function writeArray(file, tensor) {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${tensor.dims.join(", ")},), }`;
  const header = Buffer.from(text.padEnd(117) + "\n", "latin1"); // 10 + 118 bytes: a multiple of 64
  const magic = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, header.length, 0]);
  const numbers = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  const out = fs.openSync(file, "w");
  for (const piece of [magic, header, numbers])
    for (let at = 0; at < piece.length; ) at += fs.writeSync(out, piece, at);
  fs.closeSync(out);
}

const session = await ort.InferenceSession.create(model, {
  executionProviders: ["cpu"],
  graphOptimizationLevel: "all",
  intraOpNumThreads: Number(threads),
  interOpNumThreads: 1,
  executionMode: "sequential",
  enableCpuMemArena: true,
  enableMemPattern: true,
});
const feeds = { X: readArray(inputFile) };
let fetches = session.outputNames;
let results = await session.run(feeds, fetches); // the warm-up
if (arrays === "given") fetches = results;

async function timedRuns({ seconds, least }) {
  const times = [];
  for (let sum = 0; times.length < least || sum < seconds; sum += times.at(-1)) {
    results = null;
    globalThis.gc?.(); // node --expose-gc: old results do not pile up, and are not collected while the clock runs
    const start = process.hrtime.bigint();
    results = await session.run(feeds, fetches);
    times.push(Number(process.hrtime.bigint() - start) / 1e9);
  }
  return times;
}

console.log(JSON.stringify("ready"));
for await (const line of readline.createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer = null;
  if (request.save) for (const name of session.outputNames) writeArray(path.join(request.save, name + ".npy"), results[name]);
  else answer = await timedRuns(request);
  console.log(JSON.stringify(answer));
}
