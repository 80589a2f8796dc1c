// A reference that attended to the padding around its text.

#include <mha/diagnose/stream_causes.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/search.hpp>
#include <mha/forward/embedding.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mha {

namespace {

using Ids = std::vector<int>;

/// Which positions padding has.
enum class Counted : std::uint8_t {
  through, ///< those of tokens; the text's positions follow
  zero,    ///< all 0; the text starts at 0
  one,     ///< all 1, as in generation; the text starts at 0
};

/// A text with the padding around it.
struct PaddedText {
  Ids before, text, after;

  std::size_t tokens() const { return before.size() + text.size() + after.size(); }
};

/// The layer on one text, extended to the length that it has with padding.
Layer of_padded(const Layer& layer, const PaddedText& padded, Counted counted,
                const Tensor& stream) {
  Layer one = layer;
  const std::size_t all = padded.tokens(), first = padded.before.size();
  one.lengths.clear(), one.kv_lengths.clear(), one.tokens.clear(), one.key_tokens.clear();
  one.item_tokens = {}, one.item_key_tokens = {};
  one.dims.B = 1, one.dims.T = one.dims.S = one.dims.S_all = all;
  if (counted != Counted::through && one.settings.rope != Rope::none) {
    one.positions = Tensor(DType::f64, {all});
    const double of_padding = counted == Counted::one ? 1 : 0;
    for (std::size_t t = 0; t < all; ++t)
      one.positions.as_mutable<double>()[t] = t < first || t >= first + padded.text.size()
                                                  ? of_padding
                                                  : static_cast<double>(t - first);
  }
  return on_stream(one, stream);
}

/// Whether nothing in the layer depends on the number of tokens, so that padding can be added.
bool may_be_padded(const Layer& layer) {
  return layer.relative_bias.empty() && layer.X_k.empty() && layer.X_v.empty() &&
         layer.added.empty() && layer.blocked.empty() && layer.bias.empty() &&
         layer.kv_lengths.empty() && layer.positions.empty() && layer.k_past.empty() &&
         !layer.given_set.any();
}

/// The input of the first layer, (1, tokens, d_model).
Tensor embed_padded(const Embedding& embedding, const PaddedText& padded, Counted counted,
                    DType dtype) {
  Ids all = padded.before;
  all.insert(all.end(), padded.text.begin(), padded.text.end());
  all.insert(all.end(), padded.after.begin(), padded.after.end());
  if (counted == Counted::through) return embed(embedding, {all}, dtype);
  const Tensor text = embed(embedding, {padded.text}, dtype);
  const std::size_t d = text.shape()[2], bytes = d * size_of(dtype);
  Tensor rows = Tensor::uninitialised(dtype, {1, all.size(), d});
  for (std::size_t t = 0; t < all.size(); ++t) {
    const std::size_t in_text =
        t - padded.before.size(); // wraps around for the padding before the text
    const Tensor alone =
        in_text < padded.text.size() ? text : embed(embedding, {{all[t], all[t]}}, dtype);
    const std::size_t row = in_text < padded.text.size() ? in_text
                            : counted == Counted::one    ? 1
                                                         : 0;
    std::memcpy(rows.raw_mutable() + t * bytes, alone.raw() + row * bytes, bytes);
  }
  return rows;
}

/// The stream after the last layer, (B, T, d_model), without the padding.
Tensor after_all_layers(const std::vector<Layer>& layers, const Layer& ends,
                        const ModelAround& model, Counted counted, std::size_t threads) {
  const std::size_t B = model.ids.size(), T = ends.dims.T, d = ends.dims.d_model;
  Tensor all(ends.dtype, {B, T, d});
  for (std::size_t b = 0; b < B; ++b) {
    PaddedText padded{model.before[b], model.ids[b], model.after[b]};
    if (!model.lengths.empty()) padded.text.resize(model.lengths[b]);
    Tensor stream = embed_padded(*model.embedding, padded, counted, ends.dtype);
    for (const Layer& layer : layers)
      stream = stream_after(of_padded(layer, padded, counted, stream), threads);
    const std::size_t row = d * size_of(ends.dtype);
    std::memcpy(all.raw_mutable() + b * T * row, stream.raw() + padded.before.size() * row,
                padded.text.size() * row);
  }
  return all;
}

Change change_of(Counted counted) {
  const bool through = counted == Counted::through;
  return {"mask.missing", StageSet{Stage::masked},
          fmt::format("lets tokens attend to the padding beside their text{}",
                      through ? ", and counts positions through it" : ""),
          through ? "give attention_mask, and count positions from each text's first token"
                  : "hide the keys where attention_mask is 0"};
}

} // namespace

std::optional<Diagnosis> explain_attended_padding(const std::vector<Layer>& layers,
                                                  const Layer& ends, const ReferenceStage& known,
                                                  const DiagnoseContext& context) {
  const ModelAround* model = context.model;
  if (!model || model->before.size() != model->ids.size() || !model->is_padded() ||
      !std::ranges::all_of(layers, may_be_padded))
    return std::nullopt;
  EndOfModel end(ends, known, context.threads);
  const auto last_stream = [&](std::optional<DType> half) {
    return streams_through(layers, ends.ends->embed, context.threads, half).back();
  };
  const Tensor stream = last_stream({});
  if (end.half()) end.allow_rounding(stream, last_stream(end.half()));
  Search search(end, stream);
  if (search.before().agrees) return std::nullopt;
  for (const Counted counted : {Counted::through, Counted::zero, Counted::one})
    search.try_one({{change_of(counted)}, [&] {
                      return after_all_layers(layers, ends, *model, counted, context.threads);
                    }});
  return search.found();
}

} // namespace mha
