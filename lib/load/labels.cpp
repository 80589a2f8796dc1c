#include <mha/layer/names.hpp>
#include <mha/load/assemble_steps.hpp>
#include <mha/load/opened_files.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha {

namespace {

using List = std::vector<std::string>;

void require_count(const List& list, const std::string& source, std::size_t n,
                   std::string_view what) {
  if (!list.empty() && n != 0 && list.size() != n)
    fail("{}: {}, but the layer has {}", source, counted(list.size(), "labels"), counted(n, what));
}

/// Throws Error where there are lists, but not one for each batch item with at most `n` labels.
void require_items(const std::vector<List>& lists, const std::string& source, const Dims& d,
                   std::size_t n, std::string_view what) {
  if (lists.empty()) return;
  if (lists.size() != d.B)
    fail("{}: {} of labels, but the layer has {}", source, counted(lists.size(), "lists"),
         counted(d.B, "batch items"));
  for (std::size_t b = 0; b < lists.size(); ++b)
    if (n != 0 && lists[b].size() > n)
      fail("{}: {} of batch item {}, but the layer has {}", source,
           counted(lists[b].size(), "labels"), b, counted(n, what));
}

/// The labels of the current keys with those of past, extra and zero keys around them.
List of_all_keys(List current, const Dims& d) {
  if (d.extra + d.zero > 0) current.resize(d.S);
  List all;
  for (std::size_t j = 0; j < d.past; ++j) all.push_back(fmt::format("[past {}]", j));
  all.insert(all.end(), current.begin(), current.end());
  all.insert(all.end(), d.extra, "[extra]");
  all.insert(all.end(), d.zero, "[zero]");
  return all;
}

void note_one_text(const List& list, const std::string& source, const Dims& d,
                   std::vector<Note>& notes) {
  if (!list.empty() && d.batched && d.B > 1)
    notes.push_back(warning(fmt::format(
        "{}: the labels of one text are used for all {} batch items; a list of each item's is "
        "[[\"the\", …], [\"a\", …]]",
        source, d.B)));
}

/// Whether the labels in a text file are of a weight's rows and columns, or of an unknown tensor's.
bool names_no_tokens(const io::Contents& file) {
  return file.format == "text" && !file.tensors.empty() &&
         std::ranges::all_of(file.tensors, [](const io::Entry& entry) {
           const std::string name = canonical_name(entry.name, false);
           const TensorInfo* const info = find_tensor_name(name);
           return name.empty() || (info && info->role == TensorRole::weight);
         });
}

} // namespace

void read_labels(const io::Contents& file, Labels& labels, std::vector<Note>& notes) {
  if (names_no_tokens(file)) return;
  const auto label = [&](const std::string& name, io::LabelLists lists) {
    labels.take(label_name(name), std::move(lists), fmt::format("{}: {}", file.name, name));
  };
  const auto take = [&](const std::string& name, io::LabelLists lists) {
    if (!label_name(name).empty())
      label(name, std::move(lists));
    else if (!canonical_name(name, false).empty())
      fail("{}: {} is a list of text; numbers expected", file.name, name);
    else if (file.format != "text") // where a header names the columns of one tensor
      notes.emplace_back(fmt::format(
          "{}: skipped: {} is a list of text, and labels are called tokens and key_tokens",
          file.name, name));
  };
  for (const auto& [name, list] : file.labels) take(name, {list, {}});
  for (const auto& [name, lists] : file.item_labels) take(name, {{}, lists});
  for (const auto& [name, text] : file.scalars)
    if (!label_name(name).empty()) label(name, {words_of<std::string>(text, " \t\n"), {}});
}

void Labels::take(std::string_view name, io::LabelLists lists, std::string source) {
  const bool queries = name == "tokens";
  (queries ? tokens : key_tokens) = std::move(lists.one);
  (queries ? item_tokens : item_key_tokens) = std::move(lists.items);
  (queries ? tokens_source : key_tokens_source) = std::move(source);
}

void take_labels(Labels labels, Layer& layer, std::vector<Note>& notes) {
  const Dims& d = layer.dims;
  const bool self = layer.X_k.empty() && d.T == d.S;
  if (labels.key_tokens.empty() && labels.item_key_tokens.empty() && self) {
    labels.key_tokens = labels.tokens, labels.item_key_tokens = labels.item_tokens;
    labels.key_tokens_source = labels.tokens_source;
  } else {
    note_one_text(labels.key_tokens, labels.key_tokens_source, d, notes);
  }
  note_one_text(labels.tokens, labels.tokens_source, d, notes);
  require_count(labels.tokens, labels.tokens_source, d.T, "queries");
  require_items(labels.item_tokens, labels.tokens_source, d, d.T, "queries");
  layer.tokens = std::move(labels.tokens);
  layer.item_tokens = std::move(labels.item_tokens);
  if (!layer.item_tokens.empty()) layer.tokens = layer.item_tokens[0];

  if (!labels.key_tokens.empty()) {
    if (labels.key_tokens.size() != d.S_all) {
      require_count(labels.key_tokens, labels.key_tokens_source, d.S, "keys");
      labels.key_tokens = of_all_keys(labels.key_tokens, d);
    }
    layer.key_tokens = std::move(labels.key_tokens);
  }
  require_items(labels.item_key_tokens, labels.key_tokens_source, d, d.S, "keys");
  std::vector<List> lists;
  for (const List& list : labels.item_key_tokens) lists.push_back(of_all_keys(list, d));
  layer.item_key_tokens = std::move(lists);
  if (!layer.item_key_tokens.empty()) layer.key_tokens = layer.item_key_tokens[0];
}

} // namespace mha
