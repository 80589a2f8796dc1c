#include <mha/model/pass.hpp>

#include <mha/forward/attention.hpp>
#include <mha/forward/embedding.hpp>
#include <mha/load/load.hpp>
#include <mha/model/token_ids.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/system/clock.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace mha {

/// Keeps what a layer hands on.
class ModelPass::Handover : public Observer {
public:
  Handover(std::size_t number, DType dtype, const Shape& shape)
      : layer(number), stream(Tensor::uninitialised(dtype, shape)), missing_(shape[0] * shape[1]) {}
  StageSet wants() const override {
    StageSet set;
    set.set(index_of(Stage::resid_post));
    return set;
  }
  void observe(const Block& block) override {
    const std::size_t T = stream.shape()[1], bytes = stream.shape()[2] * size_of(stream.dtype());
    const auto stride = static_cast<std::size_t>(block.values.strides[0]) * size_of(stream.dtype());
    std::byte* to = stream.raw_mutable() + (block.batch * T + block.token) * bytes;
    for (std::size_t t = 0; t < block.values.shape[0]; ++t)
      std::copy_n(block.values.data + t * stride, bytes, to + t * bytes);
    missing_ -= block.values.shape[0];
  }
  bool whole() const { return missing_ == 0; }

  std::size_t layer;
  Tensor stream; ///< B, T, d_model

private:
  std::atomic<std::size_t> missing_; ///< rows
};

void ModelPass::open(const io::Contents& checkpoint, const std::vector<naming::Found>& found,
                     std::optional<DType> precision) {
  model_.emplace(found);
  notes_ = model_->notes();
  read_texts(checkpoint.name);
  if (ids_.empty() || ids_[0].empty()) fail("{}: there is no token to compute with", source_);
  const std::size_t B = ids_.size(), T = ids_[0].size();
  if (std::any_of(lengths_.begin(), lengths_.end(), [&](std::size_t n) { return n < T; })) {
    attention_mask_ = Tensor(DType::i64, {B, T});
    for (std::size_t b = 0; b < B; ++b)
      std::fill_n(attention_mask_.as_mutable<std::int64_t>().begin() +
                      static_cast<std::ptrdiff_t>(b * T),
                  lengths_[b], 1);
  }
  if (const auto trained = model_->trained_positions(); trained && T > *trained)
    remark(
        fmt::format("the text has {}, but config.json says positions for {}: what the model does "
                    "behind them was never trained",
                    counted(T, "tokens"), *trained));
  const bool wide = model_->embedding().tokens.dtype() == DType::f64;
  dtype_ = precision.value_or(wide ? DType::f64 : DType::f32);
}

/// Numbers as they are; texts as the tokenizer beside the checkpoint cuts them.
void ModelPass::read_texts(const std::string& folder) {
  const bool of_text = !text.texts.empty() || !text.files.empty();
  if (of_text && !text.ids.empty()) fail("--ids and a text are both given; one of them is to go");
  const int pad = model_->pad().value_or(0);
  // For labels, numbers alone need none.
  if (of_text || tokenizers::has_tokenizer(folder)) {
    if (of_text)
      tokenizer_ = tokenizers::load_tokenizer(folder);
    else
      try {
        tokenizer_ = tokenizers::load_tokenizer(folder);
      } catch (const Error& error) {
        notes_.push_back(fmt::format("tokens have their numbers as labels: {}", error.what()));
      }
  }
  TokenIds read;
  if (of_text) {
    source_ = text.texts.empty() ? "--text-file" : "--text";
    std::vector<std::vector<int>> texts;
    for (const std::string& one : texts_of(text.texts, text.files, text.each_line)) {
      const tokenizers::Encoding encoding = tokenizer_->encode(one, text.special);
      notes_.insert(notes_.end(), encoding.notes.begin(), encoding.notes.end());
      texts.push_back(encoding.ids());
    }
    const bool several = texts.size() > 1;
    read = padded(std::move(texts), several, pad);
  } else {
    source_ = "--ids";
    read = read_ids(text.ids, pad);
  }
  for (std::size_t b = 0; b < read.lengths.size(); ++b)
    if (read.lengths[b] == 0)
      fail("{}: {}has no token to compute with", source_,
           read.lengths.size() > 1 ? fmt::format("text {} ", b) : "the text ");
  ids_ = std::move(read.ids), lengths_ = std::move(read.lengths), batched_ = read.batched;
}

std::string ModelPass::label(int id) const {
  return tokenizer_ ? tokenizer_->label(id) : fmt::format("{}", id);
}

std::string ModelPass::plain(int id) const {
  std::string word = label(id);
  for (const auto& [shown, meant] :
       {std::pair<std::string_view, std::string_view>("␣", " "), {"⏎", "\n"}})
    for (std::size_t at = 0; (at = word.find(shown, at)) != std::string::npos; at += meant.size())
      word.replace(at, shown.size(), meant);
  return word;
}

std::vector<std::pair<std::size_t, std::size_t>> ModelPass::hidden_positions() const {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  const std::optional<int> mask = tokenizer_ ? tokenizer_->mask() : std::nullopt;
  for (std::size_t b = 0; mask && b < ids_.size(); ++b)
    for (std::size_t t = 0; t < lengths_[b]; ++t)
      if (ids_[b][t] == *mask) places.emplace_back(b, t);
  return places;
}

bool ModelPass::is_asked(std::size_t batch, std::size_t position) const {
  if (model_->causal()) return position + 1 == lengths_[batch];
  const auto hidden = hidden_positions();
  return std::find(hidden.begin(), hidden.end(), std::pair(batch, position)) != hidden.end();
}

/// Everything but the numbers of X.
LayerInput ModelPass::like_stream() const {
  LayerInput input;
  input.source = source_;
  input.attention_mask = attention_mask_;
  input.notes = notes_;
  if (!attention_mask_.empty()) input.lengths = lengths_;
  if (!tokenizer_) return input;
  // Several texts have different tokens at a place.
  for (std::size_t b = 0; b < ids_.size(); ++b) {
    std::vector<std::string>& labels =
        ids_.size() == 1 ? input.labels : input.item_labels.emplace_back();
    for (std::size_t t = 0; t < lengths_[b]; ++t) labels.push_back(label(ids_[b][t]));
  }
  return input;
}

LayerInput ModelPass::input(const Model& model, const std::string& id, bool outline) {
  const auto place = std::find(layers().begin(), layers().end(), id);
  if (place == layers().end()) fail("--layer {}: the model has no such layer", id);
  const auto number = static_cast<std::size_t>(place - layers().begin());
  LayerInput input = like_stream();
  input.block = model_->block(number);
  const Shape shape{ids_.size(), ids_[0].size(), model_->width()};
  if (!outline) advance(model, number);
  input.X = outline ? Tensor(dtype_, shape) : stream_;
  if (!batched_) input.X = input.X.at(0);
  return input;
}

/// What enters the first layer: zeros behind the end of a text.
const Tensor& ModelPass::embedded() {
  if (!embed_.empty()) return embed_;
  embed_ = embed(model_->embedding(), ids_, dtype_);
  const std::size_t T = embed_.shape()[1], row = embed_.shape()[2] * size_of(dtype_);
  for (std::size_t b = 0; b < lengths_.size(); ++b)
    std::memset(embed_.raw_mutable() + (b * T + lengths_[b]) * row, 0, (T - lengths_[b]) * row);
  return embed_;
}

/// A layer's warnings, without what is said of the text.
void ModelPass::keep_warnings(const std::vector<Note>& of_layer) {
  OfLayer kept{layers()[at_], {}};
  for (const Note& note : of_layer)
    if (note.is_warning() && std::ranges::find(notes_, note) == notes_.end())
      kept.warnings.push_back(note);
  if (!kept.warnings.empty()) warnings_.push_back(std::move(kept));
}

/// Brings the stream to the layer `to`: from where it stands, or from the beginning.
void ModelPass::advance(const Model& model, std::size_t to) {
  if (stream_.empty() || at_ > to) stream_ = embedded(), at_ = 0;
  for (; at_ < to; ++at_) {
    if (handover_ && handover_->layer == at_ && handover_->whole()) {
      stream_ = std::exchange(handover_, nullptr)->stream;
      continue;
    }
    LayerTimes& times = times_.emplace_back();
    std::optional<LoadedLayer> loaded;
    times.read = seconds_of([&] { loaded = model.load(layers()[at_]); });
    keep_warnings(loaded->notes);
    Layer layer = std::move(loaded->layer);
    Trace next(layer, {Stage::resid_post});
    const Plan plan = make_plan(layer, next.wants());
    times.phases = compute(std::move(layer), plan, next, threads);
    const Tensor& handed_on = next.value(Stage::resid_post);
    stream_ = batched_ ? handed_on : handed_on.reshaped(embed_.shape());
  }
}

void ModelPass::rewind() {
  embed_ = {}, stream_ = {}, at_ = 0;
  handover_ = nullptr, times_.clear();
}

LayerInput ModelPass::ends(const Model& model, bool stream, bool outline,
                           std::shared_ptr<const ModelEnds>& ends) {
  auto made = std::make_shared<ModelEnds>();
  made->final = model_->last_norm(), made->head = model_->head();
  LayerInput input = like_stream();
  const Shape shape{ids_.size(), ids_[0].size(), model_->width()};
  if (outline) {
    made->embed = made->stream = Tensor(dtype_, shape);
  } else {
    if (stream) advance(model, layers().size());
    made->embed = embedded(), made->stream = stream ? stream_ : embed_;
  }
  input.X = batched_ ? made->embed : made->embed.at(0);
  ends = std::move(made);
  return input;
}

Layer ModelPass::ends_after(const Model& model, std::size_t layers) {
  advance(model, layers);
  auto ends = std::make_shared<ModelEnds>();
  ends->final = model_->last_norm(), ends->head = model_->head();
  ends->embed = embed_, ends->stream = stream_;
  LayerInput input = like_stream();
  input.X = batched_ ? embed_ : embed_.at(0);
  return layer_of_ends(input, std::move(ends));
}

std::shared_ptr<Observer> ModelPass::handover(const Layer& layer, const std::string& id) {
  if (!layer.block || at_ >= layers().size() || layers()[at_] != id) return nullptr;
  handover_ = std::make_shared<Handover>(at_, layer.dtype, embed_.shape());
  return handover_;
}

} // namespace mha
