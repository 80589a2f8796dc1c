// The inputs that texts give to the layers and the ends of a model.

#include <mha/model/texts.hpp>

#include <mha/forward/embedding.hpp>
#include <mha/layer/fingerprint.hpp>
#include <mha/system/limits.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace mha {

/// Throws Error, before vectors are made, where memory cannot hold the least that is kept of each
/// token: its vector, the stream, a layer's x and its output.
void Texts::require_streams() const {
  const std::size_t B = ids_.size(), T = ids_[0].size(),
                    numbers = 4 * model().width() * size_of(weights_->dtype());
  require_memory(T > SIZE_MAX / numbers / B ? SIZE_MAX : B * T * numbers,
                 fmt::format("{}: the streams of {}", source_, counted(B * T, "tokens")),
                 "give less of the text");
}

Tensor Texts::zeros() const {
  require_streams();
  return Tensor(weights_->dtype(), {ids_.size(), ids_[0].size(), model().width()});
}

Tensor Texts::embedded() const {
  if (embedding().tokens.shape()[0] == 0)
    fail("{}: the model has no table of tokens; give what enters its embedding by <inputs_embeds>",
         source_);
  require_streams();
  Embedding own = embedding();
  own.first_position += first_position_;
  return embed(own, ids_, weights_->dtype(), lengths_);
}

Tensor Texts::embedded_for(std::size_t number, const Tensor& embedded) const {
  const LayerEmbedding& own = model().layer_embedding();
  if (own.width == 0) return {};
  if (of_rows_)
    fail("{}: the model has embeddings of tokens for each layer: give token numbers, not vectors",
         source_);
  return embed_for_layer(own, number, ids_, embedded, lengths_);
}

/// Everything but the numbers of X.
LayerInput Texts::like_stream() const {
  LayerInput input;
  input.source = source_;
  input.notes = notes_;
  input.kept = weights_->kept();
  if (std::ranges::any_of(lengths_, [&](std::size_t n) { return n < ids_[0].size(); }))
    input.lengths = lengths_;
  if (!tokenizer_) return input;
  // Each of several texts has labels of its own.
  for (std::size_t b = 0; b < ids_.size(); ++b) {
    std::vector<std::string>& labels =
        ids_.size() == 1 ? input.labels : input.item_labels.emplace_back();
    for (std::size_t t = 0; t < lengths_[b]; ++t) labels.push_back(plain(ids_[b][t]));
  }
  return input;
}

std::size_t Texts::place_of(const std::string& id) const {
  const auto place = std::find(layers().begin(), layers().end(), id);
  if (place == layers().end()) fail("<layer> {}: the model has no such layer", id);
  return static_cast<std::size_t>(place - layers().begin());
}

LayerInput Texts::input(std::size_t number, const Tensor& stream, const LayerPast& past) const {
  LayerInput input = like_stream();
  if (!past.k.empty()) input.past = batched_ ? past : LayerPast{past.k.at(0), past.v.at(0)};
  input.block = model().block(number);
  input.X = batched_ ? stream : stream.at(0);
  return input;
}

LayerInput Texts::input_of_ends(const Tensor& embedded, const Tensor& stream,
                                std::shared_ptr<const ModelEnds>& ends) const {
  auto made = std::make_shared<ModelEnds>();
  made->final = model().last_norm(), made->head = model().head();
  made->embed = embedded, made->stream = stream;
  LayerInput input = like_stream();
  input.X = batched_ ? embedded : embedded.at(0);
  ends = std::move(made);
  return input;
}

Layer Texts::ends(const Tensor& embedded, const Tensor& stream) const {
  std::shared_ptr<const ModelEnds> ends;
  const LayerInput input = input_of_ends(embedded, stream, ends);
  return layer_of_ends(input, std::move(ends));
}

std::vector<Note> Texts::warnings_of(const std::vector<Note>& of_layer) const {
  std::vector<Note> warnings;
  for (const Note& note : of_layer)
    if (note.is_warning() && !is_one_of(note, notes_)) warnings.push_back(note);
  return warnings;
}

void Texts::add_to(Fingerprint& fingerprint) const {
  fingerprint.add(name_of(weights_->dtype()));
  for (std::size_t b = 0; b < ids_.size(); ++b)
    fingerprint.add(ids_[b].data(), ids_[b].size() * sizeof(int))
        .add(&lengths_[b], sizeof(std::size_t));
  if (first_position_ > 0) fingerprint.add(&first_position_, sizeof first_position_);
  fingerprint.add(embedding());
}

} // namespace mha
