// Tasks that people come with, from the files they have to the numbers they want. The expected
// numbers are those of the plain loops in support/reference.hpp.

#include "support/files.hpp"
#include "support/reference.hpp"
#include "support/run.hpp"
#include <mha/formats/formats.hpp>
#include <mha/tensor/tensor.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>

using namespace mha::test;
using Catch::Contains;
using mha::DType;
using nlohmann::json;
using reference::Array;

namespace {

/// Numbers that look arbitrary and are the same every time.
Array numbers(const reference::Shape& shape, unsigned seed) {
  Array array(shape);
  for (double& value : array.values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<double>(seed >> 8) / (1u << 23) - 1; // −1 … 1
  }
  return array;
}

/// A layer of `T` tokens, 8 wide, 4 heads of 2, with every projection and one bias.
reference::Layer a_layer(std::size_t T = 5, unsigned seed = 1) {
  reference::Layer layer;
  layer.H = layer.H_kv = 4, layer.d_k = layer.d_v = 2;
  layer.scale = 1 / std::sqrt(2.0);
  layer.X = numbers({1, T, 8}, seed);
  layer.W_q = numbers({8, 8}, seed + 1), layer.W_k = numbers({8, 8}, seed + 2);
  layer.W_v = numbers({8, 8}, seed + 3), layer.W_o = numbers({8, 8}, seed + 4);
  layer.b_o = numbers({8}, seed + 5);
  return layer;
}

Array transposed(const Array& matrix) {
  Array turned({matrix.shape[1], matrix.shape[0]});
  for (std::size_t i = 0; i < turned.shape[0]; ++i)
    for (std::size_t j = 0; j < turned.shape[1]; ++j) turned(i, j) = matrix(j, i);
  return turned;
}

/// Without the batch axis of one, as files have it.
Array unbatched(Array array) {
  array.shape.erase(array.shape.begin());
  return array;
}

/// NamedTensor `index` of the first axis: one head of a stage.
Array part(const Array& array, std::size_t index) {
  Array one(reference::Shape(array.shape.begin() + 1, array.shape.end()));
  const std::size_t n = one.values.size();
  std::copy_n(array.values.begin() + static_cast<std::ptrdiff_t>(index * n), n, one.values.begin());
  return one;
}

double& at(Array& map, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
  return map(b, h, t, j);
}

/// What a C++ program with no library at all writes: a .npy of float32.
std::string npy_bytes(const Array& array) {
  std::string shape;
  for (std::size_t n : array.shape) shape += std::to_string(n) + ", ";
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + header.size()) % 64 != 63) header += ' ';
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  for (double value : array.values) {
    const auto number = static_cast<float>(value);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return bytes;
}

/// What a kernel leaves in memory: bfloat16, (B, T, H, D) where the array is (B, H, T, D).
std::string kernel_bytes(const Array& array) {
  std::string bytes;
  for (std::size_t b = 0; b < array.shape[0]; ++b)
    for (std::size_t t = 0; t < array.shape[2]; ++t)
      for (std::size_t h = 0; h < array.shape[1]; ++h)
        for (std::size_t i = 0; i < array.shape[3]; ++i) {
          const std::uint16_t bits = mha::to_bfloat16(static_cast<float>(array(b, h, t, i)));
          bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
        }
  return bytes;
}

/// A file of float64 in any format, by the project's own writer.
void write_file(const std::string& path, const std::vector<std::pair<std::string, Array>>& arrays,
                std::vector<std::pair<std::string, std::string>> settings = {}) {
  mha::io::Output output;
  output.scalars = std::move(settings);
  for (const auto& [name, array] : arrays) output.items.push_back({name, DType::f64, array.shape});
  const auto writer = mha::io::create(path, "", output);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::vector<double>& values = arrays[i].second.values;
    writer->write(i, 0, reinterpret_cast<const std::byte*>(values.data()), values.size());
  }
  writer->finish();
}

std::vector<std::pair<std::string, Array>> tensors_of(const reference::Layer& layer,
                                                      const std::string& prefix = "") {
  return {{prefix + "X", unbatched(layer.X)}, {prefix + "W_q", layer.W_q},
          {prefix + "W_k", layer.W_k},        {prefix + "W_v", layer.W_v},
          {prefix + "W_o", layer.W_o},        {prefix + "b_o", layer.b_o}};
}

void flatten(const json& value, std::vector<double>& values) {
  if (value.is_array())
    for (const json& element : value) flatten(element, values);
  else if (value == "-Infinity")
    values.push_back(-INFINITY);
  else
    values.push_back(value.get<double>());
}

void check_near(const std::vector<double>& values, const Array& expected, double tolerance) {
  REQUIRE(values.size() == expected.values.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != expected.values[i]) // equal infinities have no difference
      worst = std::max(worst, std::abs(values[i] - expected.values[i]));
  CHECK(worst <= tolerance); // false for NaN
}

void check_near(const json& stage, const Array& expected, double tolerance = 1e-12) {
  CHECK(stage["shape"].get<reference::Shape>() == expected.shape);
  std::vector<double> values;
  flatten(stage["data"], values);
  check_near(values, expected, tolerance);
}

void check_near(const mha::Tensor& tensor, const Array& expected, double tolerance = 1e-12) {
  CHECK(tensor.shape() == expected.shape);
  std::vector<double> values;
  for (std::size_t i = 0; i < tensor.count(); ++i) values.push_back(mha::value_at(tensor, i));
  check_near(values, expected, tolerance);
}

Result done(Result result) {
  INFO(result.err);
  REQUIRE(result.code == 0);
  return result;
}

/// The stages that `show … -f json` prints.
json shown(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "show");
  arguments.insert(arguments.end(), {"-f", "json"});
  return json::parse(done(run(arguments)).out);
}

/// A layer in a file, beside what it computes.
struct Task {
  Folder folder;
  reference::Layer layer = a_layer();
  std::map<std::string, Array> expected = reference::compute(layer);
  std::string path = folder.path("layer.npz");

  Task() { write_file(path, tensors_of(layer), {{"num_heads", "4"}}); }
  Array stage(const std::string& name) const { return unbatched(expected.at(name)); }
  Result bash(const std::string& line) const { return shell(line, {.folder = folder.path()}); }
};

/// Reads safetensors as its specification has it, with nothing but json and NumPy.
const char* const read_safetensors = R"(
import json, numpy as np
raw = open("all.safetensors", "rb").read()
size = int.from_bytes(raw[:8], "little")
header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
header.pop("__metadata__", None)
file = {}
for name, entry in header.items():
    first, last = entry["data_offsets"]
    file[name] = np.frombuffer(data[first:last], {"F64": "<f8", "F32": "<f4"}[entry["dtype"]]).reshape(entry["shape"])
)";

/// Prints arrays as `show -f json` does.
const char* const print_arrays = R"(
print(json.dumps({k: {"shape": v.shape, "data": v.astype(object).tolist()} for k, v in file.items()}).replace("-Infinity", '"-Infinity"'))
)";

} // namespace

TEST_CASE_METHOD(Task,
                 "task: .npy files of a C++ program, weights (out, in), to a dump of head 3") {
  folder.write("x.npy", npy_bytes(unbatched(layer.X)));
  folder.write("wq.npy", npy_bytes(transposed(layer.W_q)));
  folder.write("wk.npy", npy_bytes(transposed(layer.W_k)));
  folder.write("wv.npy", npy_bytes(transposed(layer.W_v)));
  folder.write("wo.npy", npy_bytes(transposed(layer.W_o)));
  folder.write("bo.npy", npy_bytes(layer.b_o));
  done(bash("\"$MHA\" dump X=x.npy W_q=wq.npy@OI W_k=wk.npy@OI W_v=wv.npy@OI W_o=wo.npy@OI "
            "b_o=bo.npy --num-heads 4 --head 3 -s q,scores,weights,head_result -o head3.npz"));
  const mha::io::Contents file = mha::io::open(folder.path("head3.npz"));
  for (const char* name : {"q", "scores", "weights", "head_result"}) {
    INFO(name);
    const mha::Tensor tensor = tensor_in(file, name);
    CHECK(tensor.dtype() == DType::f32); // as the program wrote X
    check_near(tensor, part(stage(name), 3), 1e-5);
  }
}

TEST_CASE("task: q, k and v as a kernel wrote them, in bfloat16 and (B, T, H, D)") {
  Folder folder;
  reference::Layer layer;
  layer.H = layer.H_kv = 3, layer.d_k = layer.d_v = 4, layer.scale = 0.5, layer.causal = true;
  layer.X = Array({2, 5, 12});
  for (const char* name : {"q", "k", "v"}) {
    Array array = numbers({2, 3, 5, 4}, static_cast<unsigned>(*name));
    folder.write(std::string(name) + ".bin", kernel_bytes(array));
    for (double& value : array.values)
      value = mha::from_bfloat16(mha::to_bfloat16(static_cast<float>(value)));
    layer.given[name] = array;
  }
  const auto raw = [&](const std::string& name) {
    return name + "=" + folder.path(name) + ".bin:bf16[2,5,3,4]@BTHD";
  };
  const json stages =
      shown({raw("q"), raw("k"), raw("v"), "--causal", "-s", "q,weights,head_out,concat"});
  const auto expected = reference::compute(layer);
  CHECK(stages["weights"]["dtype"] == "float32");
  check_near(stages["q"], layer.given["q"], 1e-7); // text of the nearest float32
  for (const char* name : {"weights", "head_out", "concat"}) {
    INFO(name);
    check_near(stages[name], expected.at(name), 1e-6);
  }
  // One number too few in the shape is not the file.
  const Result wrong = run({"show", "q=" + folder.path("q.bin") + ":bf16[2,5,3,3]@BTHD"});
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Contains("180") && Contains("240"));
}

TEST_CASE_METHOD(Task, "task: scores with −inf through jq and back") {
  const Result result = done(bash(
      "\"$MHA\" show layer.npz --causal -s masked -f json "
      "| jq -c '.masked.data[2][4][1] = \"-Infinity\" | .masked.data[0][3][3] = 2.5' "
      "| tee edited.json | \"$MHA\" show layer.npz --causal masked=- -s weights,output -f json"));
  CHECK_THAT(folder.read("edited.json"), Contains("\"-Infinity\""));
  reference::Layer edited = layer;
  edited.causal = true;
  Array masked = reference::compute(edited).at("masked");
  CHECK(at(masked, 0, 0, 0, 4) == -INFINITY);
  at(masked, 0, 2, 4, 1) = -INFINITY, at(masked, 0, 0, 3, 3) = 2.5;
  edited.given["masked"] = masked;
  const auto after = reference::compute(edited);
  const json stages = json::parse(result.out);
  check_near(stages["weights"], unbatched(after.at("weights")));
  check_near(stages["output"], unbatched(after.at("output")));
  CHECK(stages["weights"]["data"][2][4][1] == 0.0);
}

TEST_CASE_METHOD(Task, "task: patch the weights of a head and follow them to the output") {
  reference::Layer patched = layer;
  Array weights = expected.at("weights");
  for (std::size_t t = 0; t < 5; ++t)
    for (std::size_t j = 0; j < 5; ++j) at(weights, 0, 2, t, j) = 0.2;
  patched.given["weights"] = weights;
  write_file(folder.path("patched.npy"), {{"weights", unbatched(weights)}});
  const auto after = reference::compute(patched);
  const json stages = shown({path, "weights=" + folder.path("patched.npy"), "-s",
                             "scores,weights,head_out,head_result,concat,output"});
  check_near(stages["scores"], stage("scores")); // before the patch: as it was
  check_near(stages["weights"], unbatched(weights), 0);
  for (const char* name : {"head_out", "head_result", "concat", "output"}) {
    INFO(name);
    check_near(stages[name], unbatched(after.at(name)));
  }
  // Heads that were not patched are the same numbers, the patched one is not.
  CHECK(part(unbatched(after.at("head_out")), 1).values == part(stage("head_out"), 1).values);
  CHECK(part(unbatched(after.at("head_out")), 2).values != part(stage("head_out"), 2).values);
}

TEST_CASE_METHOD(Task, "task: a file with a layer and old results still computes") {
  auto tensors = tensors_of(layer);
  for (const char* name : {"q", "weights", "output"}) { // of some other input
    Array old = stage(name);
    for (double& value : old.values) value = 7;
    tensors.emplace_back(name, old);
  }
  for (const char* name : {"old.npz", "old.safetensors", "old.json"}) {
    INFO(name);
    write_file(folder.path(name), tensors, {{"num_heads", "4"}});
    const Result result =
        done(run({"show", folder.path(name), "-s", "q,weights,output", "-f", "json"}));
    const json stages = json::parse(result.out);
    for (const char* computed : {"q", "weights", "output"})
      check_near(stages[computed], stage(computed));
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains("q, weights, output") && Contains("computed again"));
  }
  // Bound, one of them is where the computation starts.
  const json bound =
      shown({folder.path("old.npz"), "weights=" + folder.path("old.npz"), "-s", "weights"});
  CHECK(bound["weights"]["data"][0][0][0] == 7.0);
}

TEST_CASE_METHOD(Task, "task: one token's y_i") {
  const std::string line =
      done(run({"show", path, "-s", "output", "--query", "3", "-f", "csv", "--matrix"})).out;
  REQUIRE(one_line(line));
  check_near(json::parse("[" + line + "]").get<std::vector<double>>(), part(stage("output"), 3),
             1e-12);
  check_near(shown({path, "-s", "y", "--query", "3"})["output"], part(stage("output"), 3));
  // It is b_o plus what each head adds.
  const json heads = shown({path, "-s", "head_result", "--query", "3"})["head_result"]["data"];
  Array sum = layer.b_o;
  for (std::size_t h = 0; h < 4; ++h)
    for (std::size_t i = 0; i < 8; ++i) sum(i) += heads[h][i].get<double>();
  check_near(sum.values, part(stage("output"), 3), 1e-12);
}

TEST_CASE_METHOD(Task, "task: one head's weights piped into Python") {
  const Result result = done(bash(
      "\"$MHA\" dump layer.npz -s weights --head 1 -o - | /usr/bin/python3 -c '"
      "import io, json, sys, numpy as np\n"
      "a = np.load(io.BytesIO(sys.stdin.buffer.read()))\n"
      "print(json.dumps({\"shape\": a.shape, \"data\": a.tolist(), \"dtype\": str(a.dtype)}))'"));
  const json array = json::parse(result.out);
  CHECK(array["dtype"] == "float64");
  check_near(array, part(stage("weights"), 1));
}

TEST_CASE("task: all layers at once, {layer} in the binding") {
  Folder folder;
  std::vector<reference::Layer> layers;
  std::vector<std::pair<std::string, Array>> weights, hidden;
  for (std::size_t n = 0; n < 3; ++n) {
    layers.push_back(a_layer(4, static_cast<unsigned>(100 * n + 7)));
    layers.back().causal = true;
    const std::string prefix = fmt::format("layers.{}.", n);
    for (auto& [name, array] : tensors_of(layers.back(), prefix))
      (name == prefix + "X" ? hidden : weights).emplace_back(name, array);
  }
  for (std::size_t n = 0; n < 3; ++n) hidden[n].first = fmt::format("layers.{}", n);
  const std::string model = folder.path("model.safetensors");
  write_file(model, weights, {{"num_heads", "4"}, {"causal", "true"}});
  write_file(folder.path("hidden.npz"), hidden);
  const std::string X = "X=" + folder.path("hidden.npz") + ":layers.{layer}";

  const json stages = shown({model, "--layer", "all", X, "-s", "weights,output"});
  CHECK(stages.size() == 6);
  done(run({"dump", model, "--layer", "all", X, "-s", "output", "-o", folder.path("all.npz")}));
  done(
      run({"dump", model, "--layer", "1,2", X, "-s", "output", "-o", folder.path("y{layer}.npy")}));
  CHECK_FALSE(folder.has("y0.npy"));
  const mha::io::Contents all = mha::io::open(folder.path("all.npz"));
  for (std::size_t n = 0; n < 3; ++n) {
    INFO("layer " << n);
    const auto expected = reference::compute(layers[n]);
    const std::string name = fmt::format("layers.{}", n);
    check_near(stages[name + ".weights"], unbatched(expected.at("weights")));
    check_near(stages[name + ".output"], unbatched(expected.at("output")));
    check_near(tensor_in(all, name + ".output"), unbatched(expected.at("output")));
    if (n == 0) continue;
    const auto one = mha::io::open(folder.path(fmt::format("y{}.npy", n)));
    check_near(one.tensors[0].read(), unbatched(expected.at("output")));
  }
}

TEST_CASE("task: a single token, X with one axis") {
  Folder folder;
  const reference::Layer layer = a_layer(1);
  auto tensors = tensors_of(layer);
  tensors[0].second.shape = {8};
  for (const char* name : {"one.npz", "one.json", "one.safetensors"}) {
    INFO(name);
    write_file(folder.path(name), tensors, {{"num_heads", "4"}});
    const json stages = shown({folder.path(name), "-s", "q,weights,output"});
    const auto expected = reference::compute(layer);
    for (const char* stage : {"q", "weights", "output"})
      check_near(stages[stage], unbatched(expected.at(stage)));
    CHECK(stages["weights"]["data"][3][0][0] == 1.0); // nobody else to attend to
  }
}

TEST_CASE_METHOD(Task, "task: one file a head, -o 'w{head}.npy'") {
  done(bash("\"$MHA\" dump layer.npz -s weights -o 'w{head}.npy'"));
  CHECK(folder.names() ==
        std::vector<std::string>{"layer.npz", "w0.npy", "w1.npy", "w2.npy", "w3.npy"});
  for (std::size_t h = 0; h < 4; ++h) {
    const auto file = mha::io::open(folder.path(fmt::format("w{}.npy", h)));
    check_near(file.tensors[0].read(), part(stage("weights"), h));
  }
  // They come in again, one head at a time.
  const json again = shown({fmt::format("weights={}@TS", folder.path("w2.npy")), "-s", "weights"});
  CHECK(again["weights"]["data"][0] == shown({path, "-s", "weights"})["weights"]["data"][2]);
}

TEST_CASE_METHOD(Task, "NumPy reads every stage of a dumped .npz, and of a safetensors file") {
  done(run({"dump", path, "--causal", "-o", folder.path("all.npz")}));
  done(run({"dump", path, "--causal", "-o", folder.path("all.safetensors")}));
  reference::Layer causal = layer;
  causal.causal = true;
  const auto stages = reference::compute(causal);
  folder.write("npz.py", std::string("import json, numpy as np\nfile = dict(np.load('all.npz'))") +
                             print_arrays);
  folder.write("st.py", std::string(read_safetensors) + print_arrays);
  for (const char* script : {"npz.py", "st.py"}) {
    INFO(script);
    const json file = json::parse(done(bash(std::string("/usr/bin/python3 ") + script)).out);
    CHECK(file.size() == 17);
    for (const auto& [name, array] : file.items()) {
      INFO(name);
      check_near(array, unbatched(stages.at(name)));
    }
  }
}

TEST_CASE("a reader that leaves early ends the program quietly") {
  const std::string layer = "data/induction --layer 1 X=data/induction/hidden.npz:layers.1 ";
  const Result csv =
      shell("\"$MHA\" show " + layer + "-s scores,weights,head_result -f csv | head -1");
  CHECK(csv.code == 0);
  CHECK(csv.err.empty());
  CHECK(one_line(csv.out));
  const Result npy = shell("\"$MHA\" dump " + layer + "-s head_result -o - | head -c 6");
  CHECK(npy.code == 0);
  CHECK(npy.err.empty());
  CHECK(npy.out.substr(1) == "NUMPY");
}

TEST_CASE_METHOD(Task, "a full disk is an error, and nothing is half-written") {
  for (const std::string line :
       {"show layer.npz > /dev/full", "show layer.npz -s weights -f json > /dev/full",
        "show layer.npz -s weights -f npy > /dev/full", "info layer.npz > /dev/full",
        "dump layer.npz -s weights -o - > /dev/full", "dump layer.npz -f npz -o - > /dev/full",
        "dump layer.npz -f npz -o /dev/full", "show layer.npz -s q -f csv -o /dev/full",
        "explain layer.npz --query 0 > /dev/full"}) {
    INFO(line);
    const Result result = bash("\"$MHA\" " + line);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains("No space left on device"));
  }
  // A disk that fills up on the way: 4 KiB may be written, and the old file stays.
  folder.write("old.npz", "what was there before");
  write_file(folder.path("long.npz"), {{"X", numbers({400, 8}, 9)}});
  for (const char* name : {"old.npz", "new.npz", "new.safetensors", "new.json", "new.npy"}) {
    INFO(name);
    const Result result = bash(std::string("trap '' XFSZ; ulimit -f 4; \"$MHA\" dump layer.npz "
                                           "X=long.npz -s concat -o ") +
                               name);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains("File too large"));
  }
  CHECK(folder.read("old.npz") == "what was there before");
  CHECK(folder.names() == std::vector<std::string>{"layer.npz", "long.npz", "old.npz"});
}
