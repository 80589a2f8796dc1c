// A checkpoint folder as a whole model: config.json, an index of shards and the tensors, with token
// numbers for a text. Bytes: config, NUL, index (empty: none), NUL, a safetensors file.

#include "fuzz/expect.hpp"
#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/model/predict.hpp>
#include <mha/observe/trace.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A folder in memory, of this process.
const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    std::string name = "/dev/shm/mha-fuzz-XXXXXX";
    mha::fuzz::require(mkdtemp(name.data()) != nullptr, "a folder");
    return std::filesystem::path(name);
  }();
  return path;
}

/// Every layer's last stage, and what the model predicts, of three tokens.
void compute() {
  using namespace mha;
  RunRequest request;
  request.sources = {folder().string()};
  request.text.ids = {"1,0,2", "1"};
  OpenedModel model(request);
  model.threads = 1;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = model.load(id);
    for (const std::string& note : loaded.notes) fuzz::require(!note.empty(), "a note");
    if (loaded.layer.dims.d_ff > 1000 || loaded.layer.dims.d_model > 1000) return;
    trace(loaded.layer, {Stage::weights, Stage::resid_post}, {}, 1);
  }
  const std::vector<Prediction> found = predict(model, {{0, 2}, 3, true, 1}).list;
  for (const Prediction& one : found)
    fuzz::require(one.position < 3 && one.candidates.size() <= 3, "a prediction");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t first = all.find('\0');
  if (first == std::string_view::npos) return 0;
  const std::size_t second = all.find('\0', first + 1);
  if (second == std::string_view::npos) return 0;
  const std::string_view index = all.substr(first + 1, second - first - 1),
                         tensors = all.substr(second + 1);
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    std::filesystem::remove(entry.path());
  write(folder() / "config.json", all.substr(0, first));
  if (!index.empty()) write(folder() / "model.safetensors.index.json", index);
  write(folder() / (index.empty() ? "model.safetensors" : "a.safetensors"), tensors);
  mha::fuzz::expect_error_or_success(compute);
  return 0;
}
