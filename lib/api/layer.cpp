// Layers made of tensors and files.

#include <mha/mha.hpp>

#include <mha/api/visit.hpp>
#include <mha/files/text.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/load/load.hpp>
#include <mha/observe/not_finite.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace mha {

namespace {

/// The file of `X` in the current folder, or else beside the source.
std::string place_of_input(const std::string& source, const std::string& X) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(io::parse_source("X=" + X).path, ignored)) return X;
  const fs::path folder =
      fs::is_directory(source, ignored) ? fs::path(source) : fs::path(source).parent_path();
  const std::string beside = (folder / X).string();
  return fs::exists(io::parse_source("X=" + beside).path, ignored) ? beside : X;
}

Request request_for(const std::string& source, const Options& options) {
  Request request;
  request.sources = {source};
  request.settings = options.settings;
  request.dtype = options.dtype, request.naming = options.naming;
  request.X_is_stream = true;
  api::require_settings(options.settings);
  return request;
}

} // namespace

Layer layer(Tensors tensors, Settings settings, const Options& options) {
  return api::visiting([&] {
    if (!options.naming.empty())
      fail("naming is {}: tensors that are given by name have the names of docs/formats.md; leave "
           "it out",
           options.naming);
    require_valid(settings);
    NamedTensors parts;
    for (auto& [key, tensor] : tensors) {
      const std::string name = bound_name(key, key, false);
      if (tensor.empty()) fail("{}: the tensor is empty: it has neither numbers nor a shape", key);
      const auto [at, added] = parts.emplace(name, NamedTensor{std::move(tensor), key, true});
      if (!added) fail("{} and {} are both {}; remove one of them", at->second.source, key, name);
    }
    for (const auto& [name, value] : options.settings) set(settings, name, value, name);
    Labels labels;
    if (!options.tokens.empty()) labels.take("tokens", {options.tokens, {}}, "tokens");
    if (!options.key_tokens.empty())
      labels.take("key_tokens", {options.key_tokens, {}}, "key_tokens");
    std::vector<Note> notes;
    note_identities(parts, {}, notes);
    Layer made =
        make_layer(std::move(parts), std::move(settings), options.dtype, std::move(labels), &notes);
    if (options.notes) std::ranges::move(not_finite_inputs(made), std::back_inserter(notes));
    api::report(options.notes, std::move(notes));
    return made;
  });
}

namespace {

void take_labels_of(const Options& options, Layer& layer) {
  const auto take = [](const std::vector<std::string>& labels, std::vector<std::string>& to,
                       std::string_view name, std::size_t count) {
    if (labels.empty()) return;
    if (labels.size() != count)
      fail("{}: {}, but the layer has {}", name, counted(labels.size(), "labels"), count);
    to = labels;
  };
  const Dims& dims = layer.dims;
  take(options.tokens, layer.tokens, "tokens", dims.T);
  const bool same = options.key_tokens.empty() && dims.T == dims.S_all;
  take(same ? options.tokens : options.key_tokens, layer.key_tokens, "key_tokens", dims.S_all);
}

Layer load_one(Request request, const Options& options) {
  const Sources opened(std::move(request));
  if (opened.chosen().size() != 1)
    fail("{}: {} layers are chosen, and one is loaded at a time", opened.title(),
         opened.chosen().size());
  LoadedLayer loaded = opened.load(opened.chosen()[0]);
  Layer& layer = loaded.layer;
  take_labels_of(options, layer);
  if (options.notes && !layer.block)
    std::ranges::move(not_finite_inputs(layer), std::back_inserter(loaded.notes));
  api::report(options.notes, std::move(loaded.notes));
  return std::move(layer);
}

} // namespace

Layer load(const std::string& source, const LayerId& layer, const std::string& X,
           const Options& options) {
  return api::visiting([&] {
    Request request = request_for(source, options);
    request.layer = layer.id();
    if (!X.empty()) request.sources.push_back("X=" + place_of_input(source, X));
    return load_one(std::move(request), options);
  });
}

Layer load(const std::string& source, const LayerId& layer, Tensors tensors,
           const Options& options) {
  return api::visiting([&] {
    Request request = request_for(source, options);
    request.layer = layer.id();
    request.bound = std::move(tensors);
    return load_one(std::move(request), options);
  });
}

std::vector<std::string> layers_in(const std::string& source) {
  return api::visiting([&] {
    Request request;
    request.sources = {source};
    return api::layer_ids(std::move(request));
  });
}

std::vector<std::string> api::layer_ids(Request request) {
  request.layer = "all";
  try {
    return Sources(request).chosen();
  } catch (const Error&) { // one layer without a number, or an error that the next line reports
    request.layer = "";
    return Sources(std::move(request)).chosen();
  }
}

} // namespace mha
