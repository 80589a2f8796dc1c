#include "dump_text.hpp"

namespace mha::app {

namespace {

/// The texts that a selection chooses, and whether they keep their axis.
struct ChosenTexts {
  std::vector<std::size_t> items;
  bool batched = false;
};
ChosenTexts chosen_texts(const ModelPass& pass, const Selection& selection) {
  const Pick pick = resolved(selection.batch, pass.ids().size(), "batch items");
  return {pick.indices, pass.batched() && !(selection.batch && pick.drops_axis)};
}

bool has_text(const ModelPass* pass) {
  return pass != nullptr && pass->given();
}

} // namespace

std::vector<NumbersOfText> numbers_of_text(const Layer& layer, const ModelPass* pass,
                                           const Selection& selection) {
  std::vector<NumbersOfText> list;
  if (!layer.lengths.empty() && !selection.batch)
    list.push_back(
        {{"lengths", DType::i64, {layer.dims.B}}, {layer.lengths.begin(), layer.lengths.end()}});
  if (!has_text(pass)) return list;
  const ChosenTexts chosen = chosen_texts(*pass, selection);
  const std::size_t T = pass->ids()[0].size();
  NumbersOfText ids{{"ids", DType::i64, {T}}, {}};
  if (chosen.batched) ids.item.shape = {chosen.items.size(), T};
  for (std::size_t b : chosen.items)
    ids.values.insert(ids.values.end(), pass->ids()[b].begin(), pass->ids()[b].end());
  list.push_back(std::move(ids));
  return list;
}

void add_labels_of_text(const Layer& layer, const ModelPass* pass, const Selection& selection,
                        io::Output& output) {
  if (!has_text(pass)) return;
  const ChosenTexts chosen = chosen_texts(*pass, selection);
  const std::size_t T = pass->ids()[0].size();
  const auto add = [&](const char* name, const std::optional<IndexList>& places) {
    std::vector<std::vector<std::string>> lists;
    for (std::size_t b : chosen.items) {
      const std::vector<std::string>& labels = layer.tokens_of(b);
      if (labels.empty()) return;
      std::vector<std::string>& some = lists.emplace_back();
      for (std::size_t t : resolved(places, T, "tokens").indices)
        some.push_back(t < labels.size() ? labels[t] : "");
    }
    if (chosen.batched)
      output.item_labels.emplace_back(name, std::move(lists));
    else
      output.labels.emplace_back(name, std::move(lists[0]));
  };
  add("tokens", selection.query);
  if (selection.query || selection.key) add("key_tokens", selection.key);
}

} // namespace mha::app
