#include "dump_text.hpp"

namespace mha::app {

namespace {

/// The selected texts, whether they keep their axis, and the length of the longest.
struct ChosenTexts {
  std::vector<std::size_t> items;
  bool batched = false;
  std::size_t longest = 0;
};
ChosenTexts chosen_texts(const Layer& layer, const Texts& texts, const Selection& selection) {
  const Pick pick = resolved(selection.batch, texts.ids().size(), "batch items");
  Selection of_items;
  of_items.batch = selection.batch;
  return {pick.indices, texts.batched() && !(selection.batch && pick.drops_axis),
          chosen_queries(layer, of_items).indices.size()};
}

} // namespace

std::vector<NumbersOfText> numbers_of_text(const Layer& layer, const Texts* texts,
                                           const Selection& selection) {
  std::vector<NumbersOfText> list;
  if (!layer.lengths.empty()) {
    const Pick items = chosen_items(layer, selection);
    NumbersOfText lengths{{"lengths", DType::i64, {items.indices.size()}}, {}};
    for (const std::size_t b : items.indices)
      lengths.values.push_back(static_cast<std::int64_t>(layer.length_of(b)));
    if (!items.drops_axis) list.push_back(std::move(lengths));
  }
  if (!texts) return list;
  const auto [items, batched, T] = chosen_texts(layer, *texts, selection);
  NumbersOfText ids{{"ids", DType::i64, {T}}, {}};
  if (batched) ids.item.shape = {items.size(), T};
  for (std::size_t b : items) {
    const auto first = texts->ids()[b].begin();
    ids.values.insert(ids.values.end(), first, first + static_cast<std::ptrdiff_t>(T));
  }
  list.push_back(std::move(ids));
  return list;
}

void add_labels_of_text(const Layer& layer, const Texts* texts, const Selection& selection,
                        io::Output& output) {
  if (!texts) return;
  const ChosenTexts chosen = chosen_texts(layer, *texts, selection);
  bool keys_differ = false;
  for (std::size_t b : chosen.items)
    keys_differ = keys_differ || layer.key_tokens_of(b) != layer.tokens_of(b);
  const auto add = [&](const char* name, const std::optional<IndexList>& places, bool of_keys) {
    std::vector<std::vector<std::string>> lists;
    for (std::size_t b : chosen.items) {
      const std::vector<std::string>& labels =
          of_keys ? layer.key_tokens_of(b) : layer.tokens_of(b);
      if (labels.empty()) return;
      std::vector<std::string>& selected = lists.emplace_back();
      for (std::size_t t : resolved(places, chosen.longest, "tokens").indices)
        selected.push_back(t < labels.size() ? labels[t] : "");
    }
    if (chosen.batched)
      output.item_labels.emplace_back(name, std::move(lists));
    else
      output.labels.emplace_back(name, std::move(lists[0]));
  };
  add("tokens", selection.query, false);
  if (selection.query || selection.key || keys_differ) add("key_tokens", selection.key, true);
}

} // namespace mha::app
