#include "inventory.hpp"

#include "describe.hpp"
#include "layer_notes.hpp"
#include "options.hpp"
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <set>

namespace mha::app {

namespace {

Inventory::File file_listing(const io::Contents& contents, bool ranges, std::size_t threads) {
  Inventory::File file{contents.name, contents.format, {}, contents.scalars, {}, {}};
  for (const Message& note : contents.notes) file.notes.push_back(console_text(note));
  for (const io::Entry& entry : contents.tensors)
    file.tensors.push_back({entry.name, entry.dtype, entry.shape, std::nullopt,
                            std::string(entry.blocks ? entry.blocks->name : "")});
  for (const auto& [name, list] : contents.labels) file.labels.emplace_back(name, list.size());
  if (ranges)
    parallel_for(file.tensors.size(), threads, [&](std::size_t i) {
      file.tensors[i].range = summary_of(contents.tensors[i].read());
    });
  return file;
}

/// A layer's tensors with their ranges, for lint. `loaded` is nullptr if the tensors do not make a
/// complete layer.
LintSubject make_lint_subject(std::vector<Sources::SourceTensor> tensors, const LoadedLayer* loaded,
                              std::size_t threads) {
  LintSubject subject;
  subject.loaded = loaded;
  subject.threads = threads;
  for (Sources::SourceTensor& entry : tensors) {
    const Summary summary = summary_of(entry.tensor);
    subject.tensors.push_back(
        {std::move(entry.name), std::move(entry.source), std::move(entry.tensor), summary});
  }
  return subject;
}

/// What lint finds in the tensors of a layer that cannot be loaded.
std::vector<Suspicion> lint_incomplete_layer(OpenedModel& model, const std::string& id,
                                             std::size_t threads) {
  try {
    return lint(make_lint_subject(model.tensors_of(id), nullptr, threads));
  } catch (const Error&) {
    return {}; // inventory.reason already explains the error
  }
}

/// Removes the rows of layers that are not chosen. If `sizes`, loads the others and adds their
/// sizes and what lint finds in them; a layer that cannot be loaded keeps its row and gets a note.
void list_layers(OpenedModel& model, bool sizes, std::size_t threads, Inventory& inventory) {
  const std::vector<std::string>& chosen = model.chosen();
  const std::set<std::string> kept_ids(chosen.begin(), chosen.end());
  std::erase_if(inventory.layers,
                [&](const Inventory::LayerRow& row) { return !kept_ids.contains(row.listing.id); });
  if (!sizes) return;
  LayerNotes notes;
  for (Inventory::LayerRow& row : inventory.layers) {
    try {
      std::vector<Sources::SourceTensor> tensors;
      const LoadedLayer loaded = model.load(row.listing.id, tensors);
      row.dims = loaded.layer.dims;
      row.dtype = loaded.layer.dtype;
      notes.add(loaded.notes, row.listing.id);
      for (Suspicion& finding : lint(make_lint_subject(std::move(tensors), &loaded, threads))) {
        finding.text = message("layer {}: {}", row.listing.id, finding.text);
        inventory.findings.push_back(std::move(finding));
      }
    } catch (const Error& error) {
      notes.add({warning(error.message())}, row.listing.id);
    }
  }
  std::ranges::move(notes.take(), std::back_inserter(inventory.notes));
}

/// Lists a layer's tensors in the order of tensor_names(), followed by stages that are given.
void list_tensors(std::vector<Sources::SourceTensor> tensors, const LoadedLayer& loaded,
                  bool ranges, std::size_t threads, Inventory& inventory) {
  if (ranges) {
    const LintSubject subject = make_lint_subject(std::move(tensors), &loaded, threads);
    inventory.findings = lint(subject);
    for (const LintTensor& entry : subject.tensors)
      inventory.tensors.push_back(
          {{entry.name, entry.tensor.dtype(), entry.tensor.shape(), entry.summary}, entry.source});
  } else {
    for (const Sources::SourceTensor& entry : tensors)
      inventory.tensors.push_back(
          {{entry.name, entry.tensor.dtype(), entry.tensor.shape(), std::nullopt}, entry.source});
  }
  const auto table_row = [](const Inventory::SourceTensor& entry) {
    return std::ranges::find(tensor_names(), entry.item.name, &TensorInfo::name) -
           std::ranges::begin(tensor_names());
  };
  std::ranges::stable_sort(inventory.tensors, {}, table_row);
}

/// Lists the stages that can be computed, and every setting with its origin.
void list_stages_and_settings(const Layer& layer, Inventory& inventory) {
  for (const Stage stage : available_stages(layer))
    inventory.stages.emplace_back(name_of(stage), layer.shape_of(stage));
  inventory.missing_X = console_text(layer.missing_X);
  const Settings& settings = layer.settings;
  for (const SettingInfo& info : settings_table()) {
    const auto origin = settings.origins.find(info.name);
    inventory.settings.push_back(
        {std::string(info.name), info.get(settings),
         origin == settings.origins.end() ? std::string() : origin->second});
  }
}

/// Lists the tensors and settings that are recognised but not computed: everything in a layer
/// of another kind than attention, or the experts of a layer whose attention is computed.
void list_uncomputed_parts(const OpenedModel& model, const std::string& id, bool ranges,
                           Inventory& inventory) {
  const std::vector<naming::Found>& found = model.sources().found();
  const auto is_recognised = [&](const naming::Found& layer) {
    return layer.id == id && (layer.family->tree || layer.group.description);
  };
  if (std::ranges::none_of(found, is_recognised)) return;
  Sources::OfKind parts;
  try {
    parts = model.sources().of_kind(id);
  } catch (const Error&) {
    return; // inventory.reason already explains the error
  }
  if (parts.tensors.empty()) return;
  std::ranges::stable_sort(parts.tensors, {}, [](const Sources::SourceTensor& part) {
    const auto index_in = [&](const auto& table) {
      return std::ranges::find(table, part.name, &TensorInfo::name) - std::ranges::begin(table);
    };
    return std::pair(index_in(tensor_names()), index_in(tensors_of_kinds()));
  });
  if (inventory.headline.empty()) {
    inventory.id = id;
    inventory.naming = parts.naming;
    inventory.headline = fmt::format("layer {} · {}", id, parts.naming);
  }
  for (const Sources::SourceTensor& part : parts.tensors)
    inventory.tensors.push_back({{part.name, part.tensor.dtype(), part.tensor.shape(),
                                  ranges ? std::optional(summary_of(part.tensor)) : std::nullopt},
                                 part.source});
  for (const auto& [name, value, origin] : parts.settings)
    inventory.settings.push_back({name, value, origin});
}

} // namespace

OpenedModel open_one_or_all(const RunRequest& request, std::string& reason) {
  try {
    return OpenedModel(request);
  } catch (const Error& error) {
    if (!request.layer.empty()) throw;
    reason = console_text(error);
  }
  RunRequest all = request;
  all.layer = "all", all.same_x = true; // nothing is computed
  try {
    return OpenedModel(all);
  } catch (const Error&) {
    throw Error(reason); // explains the request, unlike the error of the second attempt
  }
}

Inventory take_inventory(const RunRequest& request, bool ranges, std::size_t threads) {
  Inventory inventory;
  OpenedModel model = open_one_or_all(request, inventory.reason);
  inventory.notes = idle_options(request, model.sources());
  for (const io::Contents& contents : model.sources().contents())
    inventory.files.push_back(file_listing(contents, ranges, threads));
  for (const LayerListing& layer : model.sources().layers())
    inventory.layers.push_back({layer, std::nullopt, DType::f32});
  if (model.chosen().size() > 1) {
    if (inventory.reason.empty())
      inventory.reason = fmt::format(
          "{} layers are chosen; info shows the settings of one layer: choose it with --layer",
          model.chosen().size());
    list_layers(model, ranges, threads, inventory);
    return inventory;
  }
  if (!inventory.reason.empty()) return inventory;
  LoadedLayer loaded;
  std::vector<Sources::SourceTensor> tensors;
  try {
    loaded = model.load(model.chosen()[0], tensors);
  } catch (const Error& error) {
    inventory.reason = console_text(error);
    list_uncomputed_parts(model, model.chosen()[0], ranges, inventory);
    if (ranges && inventory.tensors.empty())
      inventory.findings = lint_incomplete_layer(model, model.chosen()[0], threads);
    return inventory;
  }
  std::ranges::copy(loaded.notes, std::back_inserter(inventory.notes));
  if (loaded.origins.empty()) {
    inventory.reason = "none of the tensors in these files belongs to a layer";
    return inventory;
  }
  inventory.id = loaded.id;
  inventory.naming = loaded.naming;
  inventory.headline = headline_text(model, loaded);
  list_tensors(std::move(tensors), loaded, ranges, threads, inventory);
  list_stages_and_settings(loaded.layer, inventory);
  list_uncomputed_parts(model, loaded.id, ranges, inventory);
  return inventory;
}

} // namespace mha::app
