#include "support/layer_file.hpp"

#include "support/library_input.hpp"
#include "unit/formats/support.hpp"
#include <mha/formats/formats.hpp>

namespace {

void write(const std::string& path, const std::vector<std::pair<std::string, mha::Tensor>>& tensors,
           const std::vector<std::pair<std::string, std::string>>& settings) {
  mha::io::Output output;
  for (const auto& [name, tensor] : tensors)
    output.items.push_back({name, tensor.dtype(), tensor.shape()});
  output.scalars = settings;
  const auto writer = mha::io::create(path, "", output);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    writer->write(i, 0, tensors[i].second.raw(), tensors[i].second.count());
  writer->finish();
}

void bind(mha::Request& request, const mha::io::test::Folder& folder, const LayerFile& file) {
  for (const auto& [name, tensor] : file.tensors) {
    const std::string path = folder / (name + ".npy");
    write(path, {{name, tensor}}, {});
    request.sources.push_back(name + "=" + path);
  }
  request.settings.insert(request.settings.end(), file.settings.begin(), file.settings.end());
}

mha::LoadedLayer load(mha::Request request) {
  const mha::Sources model(std::move(request));
  return model.load(model.chosen().at(0));
}

} // namespace

void LayerFile::put(const std::string& name, const reference::Array& array, mha::DType dtype) {
  if (!array.empty()) tensors.emplace_back(name, tensor_of(array, dtype));
}

mha::LoadedLayer load_npz(const LayerFile& file,
                          const std::vector<std::pair<std::string, std::string>>& options,
                          const LayerFile& bound) {
  const mha::io::test::Folder folder;
  mha::Request request;
  request.sources = {folder / "layer.npz"};
  request.settings = options;
  write(request.sources[0], file.tensors, file.settings);
  bind(request, folder, bound);
  return load(std::move(request));
}

mha::LoadedLayer load_bound(const LayerFile& file) {
  const mha::io::test::Folder folder;
  mha::Request request;
  bind(request, folder, file);
  return load(std::move(request));
}

reference::Array rounded(const reference::Array& array, mha::DType dtype) {
  reference::Array copy = array;
  if (array.empty()) return copy;
  const mha::Tensor tensor = tensor_of(array, dtype);
  for (std::size_t i = 0; i < copy.values.size(); ++i) copy.values[i] = mha::value_at(tensor, i);
  return copy;
}
