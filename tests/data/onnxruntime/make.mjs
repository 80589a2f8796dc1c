// Writes this folder: the graphs of tests/models/onnx.py and what ONNX Runtime computes of them. Run by hand;
// tests need neither Node nor ONNX Runtime (npm's onnxruntime-node in MODULES/node_modules).
//   node tests/data/onnxruntime/make.mjs MODULES
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const here = path.dirname(new URL(import.meta.url).pathname);
const ort = createRequire(path.join(path.resolve(process.argv[2]), "x"))("onnxruntime-node");
const writer = path.join(here, "../../models/onnx.py");
const listing = JSON.parse(execFileSync("/usr/bin/python3", [writer, "runtime", here], { encoding: "utf8" }));
const arrays = { float32: Float32Array, int32: Int32Array, bool: Uint8Array };
const expected = {};
for (const { name, stages, inputs } of listing) {
  const session = await ort.InferenceSession.create(path.join(here, `${name}.onnx`), { graphOptimizationLevel: "disabled" });
  const feeds = {};
  for (const [input, { dtype, dims, data }] of Object.entries(inputs))
    feeds[input] = new ort.Tensor(dtype, arrays[dtype].from(data), dims);
  const results = await session.run(feeds);
  const tensor = (dims, data) => ({ dtype: "float32", shape: dims, data: Array.from(data) });
  const rows = (dims) => dims.filter((n) => n !== 1); // a batch of one
  expected[`${name}.X`] = tensor(rows(feeds.hidden.dims), feeds.hidden.data);
  if (feeds.memory) expected[`${name}.X_kv`] = tensor(rows(feeds.memory.dims), feeds.memory.data);
  for (const [stage, output] of Object.entries(stages))
    expected[`${name}.${stage}`] = tensor(rows(results[output].dims), results[output].data);
}
fs.writeFileSync(path.join(here, "expected.json"), JSON.stringify(expected));
