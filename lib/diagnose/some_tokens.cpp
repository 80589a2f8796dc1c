#include <mha/diagnose/some_tokens.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/forward/rotary_kinds.hpp>
#include <mha/observe/first_tokens.hpp>

#include <algorithm>
#include <cstring>

namespace mha {

Tensor token_rows(const Tensor& tensor, const std::vector<std::size_t>& tokens) {
  Shape shape = tensor.shape();
  const std::size_t B = shape[0], T = shape[1];
  const std::size_t bytes = tensor.count() / (B * T) * size_of(tensor.dtype());
  shape[1] = tokens.size();
  Tensor rows = Tensor::uninitialised(tensor.dtype(), shape);
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t i = 0; i < tokens.size(); ++i)
      std::memcpy(rows.raw_mutable() + (b * tokens.size() + i) * bytes,
                  tensor.raw() + (b * T + tokens[i]) * bytes, bytes);
  return rows;
}

Tensor without_padding(const Tensor& theirs, Stage stage, const std::vector<std::size_t>& lengths) {
  const std::size_t axis = info_of(stage).kind == Kind::token ? 1 : 2, T = theirs.shape()[axis];
  if (std::ranges::all_of(lengths, [T](std::size_t n) { return n >= T; })) return theirs;
  Tensor kept = copied(theirs);
  const std::size_t heads = axis == 2 ? theirs.shape()[1] : 1,
                    width = theirs.count() / (theirs.shape()[0] * heads * T);
  by_precision(kept.dtype(), [&]<class N>(N) {
    const auto values = kept.as_mutable<N>();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i / width % T >= lengths[i / (heads * T * width)]) values[i] = 0;
  });
  return kept;
}

std::optional<Layer> of_first_tokens(const Layer& layer, std::size_t count) {
  const Dims& dims = layer.dims;
  const bool of_one_text = dims.T == dims.S_all && layer.X_k.empty() && layer.added.empty() &&
                           layer.blocked.empty() && layer.bias.empty() &&
                           layer.kv_lengths.empty() && layer.positions.rank() <= 1 &&
                           !layer.given_set.any();
  const auto ends_before = [count](std::size_t length) { return length < count; };
  if (!of_one_text || count >= dims.T || std::ranges::any_of(layer.lengths, ends_before))
    return std::nullopt;
  Layer some = first_tokens(layer, count);
  if (turns_by_length(layer.settings))
    some.settings.rope_length =
        rotary_length(layer, dims.T, layer.settings.rope_offset.value_or(0));
  return some;
}

namespace {

Layer ends_of_tokens(const Layer& ends, const std::vector<std::size_t>& tokens) {
  Layer some = ends;
  some.dims.T = some.dims.S = some.dims.S_all = tokens.size();
  some.lengths.clear(), some.tokens.clear(), some.item_tokens.clear();
  auto own = std::make_shared<ModelEnds>(*ends.ends);
  if (!own->embed.empty()) own->embed = token_rows(own->embed, tokens);
  if (!own->stream.empty()) own->stream = token_rows(own->stream, tokens);
  if (!some.X.empty()) some.X = token_rows(some.X, tokens);
  some.ends = std::move(own);
  for (const Stage stage : {Stage::embed, Stage::final, Stage::logits})
    if (ends.has_given(stage)) give(some, stage, token_rows(ends.given[index_of(stage)], tokens));
  return some;
}

/// The chosen outputs of a product, gathered without transposing the stored weight.
LinearMap some_outputs(const LinearMap& map, const std::vector<std::size_t>& outputs) {
  const auto from = [&](std::size_t i) { return outputs[i]; };
  LinearMap some{{}, columns_from(map.b, outputs.size(), from)};
  if (const StoredMatrix* stored = map.W.stored(); stored && stored->transposed) {
    const std::vector<std::size_t> rows = [&] {
      std::vector<std::size_t> list = outputs;
      for (std::size_t& row : list) row += stored->first;
      return list;
    }();
    const Tensor& all = stored->matrix;
    const Shape one_item{1, all.shape()[0], all.shape()[1]};
    some.W = transposed_when_read(
        token_rows(all.reshaped(one_item), rows).reshaped({rows.size(), all.shape()[1]}));
    if (some.W.dtype() != map.W.dtype()) some.W = convert(some.W, map.W.dtype());
  } else {
    some.W = columns_from(map.W, outputs.size(), from);
  }
  return some;
}

Layer ends_of_logits(const Layer& ends, const std::vector<std::size_t>& logits) {
  Layer some = ends;
  auto own = std::make_shared<ModelEnds>(*ends.ends);
  own->head.decoder = some_outputs(own->head.decoder, logits);
  some.ends = std::move(own);
  some.dims.vocabulary = logits.size();
  if (ends.has_given(Stage::logits))
    give(some, Stage::logits,
         part_of(ends.given[index_of(Stage::logits)], Stage::logits, {{}, logits}));
  return some;
}

} // namespace

EndSample EndSample::needed_for(const std::vector<const Change*>& changes) const {
  EndSample part = *this;
  for (const Change* change : changes) {
    if (change->other_tokens) part.tokens.clear();
    if (change->other_logits) part.logits.clear();
  }
  return part;
}

std::vector<std::size_t> evenly(std::size_t all, std::size_t count) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(i * (all - 1) / (count - 1));
  return numbers;
}

std::vector<std::size_t> some_logits(const Layer& ends) {
  const std::size_t all = ends.dims.vocabulary;
  return all > 2 * thresholds::screened_logits ? evenly(all, thresholds::screened_logits)
                                               : std::vector<std::size_t>{};
}

Layer ends_of(const Layer& ends, const EndSample& part) {
  const Layer some = part.tokens.empty() ? ends : ends_of_tokens(ends, part.tokens);
  return part.logits.empty() ? some : ends_of_logits(some, part.logits);
}

Tensor part_of(const Tensor& value, Stage stage, const EndSample& part) {
  const Tensor rows = part.tokens.empty() ? value : token_rows(value, part.tokens);
  if (part.logits.empty() || stage != Stage::logits) return rows;
  return columns_from(rows, part.logits.size(), [&](std::size_t i) { return part.logits[i]; });
}

} // namespace mha
