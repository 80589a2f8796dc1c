#include <mha/model/pass.hpp>

#include <mha/forward/attention.hpp>
#include <mha/forward/embedding.hpp>
#include <mha/load/load.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/limits.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace mha {

namespace {

/// Looks at nothing: what is handed on is seen by the layer's pass.
class Unobserved : public Observer {
public:
  StageSet wants() const override { return {}; }
  void observe(const Slice&) override {}
};

} // namespace

void ModelPass::open(const io::Contents& checkpoint, const std::vector<naming::Found>& found,
                     std::optional<DType> precision) {
  if (weights_) throw std::logic_error("a text's pass is opened twice: on_own_pass()");
  weights_ = std::make_shared<const Weights>(checkpoint, found, precision, memory);
  if (opens_model)
    notes_ = model().notes();
  else
    take_text();
}

ModelPass::ModelPass(const ModelPass& opened, Text other)
    : text(std::move(other)), memory(opened.memory), weights_(opened.weights_) {
  threads = opened.threads;
  take_text();
}

ModelPass::ModelPass(std::shared_ptr<const Weights> weights, TokenIds tokens, std::string source,
                     bool labelled)
    : weights_(std::move(weights)),
      ids_(std::move(tokens.ids)),
      lengths_(std::move(tokens.lengths)),
      batched_(tokens.batched),
      source_(std::move(source)) {
  notes_ = model().notes();
  if (labelled) read_tokenizer(false);
  take_tokens();
}

ModelPass::ModelPass(const ModelPass& texts, std::size_t first, std::size_t count,
                     std::string source, bool batched)
    : weights_(texts.weights_),
      tokenizer_(texts.tokenizer_),
      batched_(batched),
      source_(std::move(source)),
      of_rows_(texts.of_rows_) {
  threads = texts.threads;
  std::vector<std::vector<int>> own;
  for (std::size_t b = first; b < first + count; ++b) {
    const std::size_t one = b % texts.ids_.size();
    const auto begin = texts.ids_[one].begin();
    own.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(texts.lengths_[one]));
  }
  TokenIds some = padded(std::move(own), batched, model().pad().value_or(0));
  ids_ = std::move(some.ids), lengths_ = std::move(some.lengths);
}

/// Before the first vector of all tokens together is made. What is kept of a token at least,
/// whatever is asked for: its vector, the stream, a layer's x and its output.
void ModelPass::require_streams() const {
  const std::size_t B = ids_.size(), T = ids_[0].size(),
                    numbers = 4 * model().width() * size_of(weights_->dtype());
  require_memory(T > SIZE_MAX / numbers / B ? SIZE_MAX : B * T * numbers,
                 fmt::format("{}: the streams of {}", source_, counted(B * T, "tokens")),
                 "give less of the text");
}

/// Everything but the numbers of X.
LayerInput ModelPass::like_stream() const {
  LayerInput input;
  input.source = source_;
  input.notes = notes_;
  input.kept = weights_->kept();
  if (std::ranges::any_of(lengths_, [&](std::size_t n) { return n < ids_[0].size(); }))
    input.lengths = lengths_;
  if (!tokenizer_) return input;
  // Several texts have different tokens at a place.
  for (std::size_t b = 0; b < ids_.size(); ++b) {
    std::vector<std::string>& labels =
        ids_.size() == 1 ? input.labels : input.item_labels.emplace_back();
    for (std::size_t t = 0; t < lengths_[b]; ++t) labels.push_back(plain(ids_[b][t]));
  }
  return input;
}

std::size_t ModelPass::place_of(const std::string& id) const {
  const auto place = std::find(layers().begin(), layers().end(), id);
  if (place == layers().end()) fail("--layer {}: the model has no such layer", id);
  return static_cast<std::size_t>(place - layers().begin());
}

LayerInput ModelPass::input(const Sources& sources, const std::string& id, bool outline) {
  const std::size_t number = place_of(id);
  LayerInput input = like_stream();
  input.block = model().block(number);
  const Shape shape{ids_.size(), ids_[0].size(), model().width()};
  if (outline) require_streams();
  if (!outline) advance(sources, number);
  input.X = outline ? Tensor(weights_->dtype(), shape) : stream_;
  if (!batched_) input.X = input.X.at(0);
  return input;
}

const Tensor& ModelPass::embedded() {
  if (!embed_.empty()) return embed_;
  if (embedding().tokens.shape()[0] == 0)
    fail("{}: the model has no table of tokens; give what enters its embedding by --inputs-embeds",
         source_);
  require_streams();
  return embed_ = embed(embedding(), ids_, weights_->dtype(), lengths_);
}

std::vector<Note> ModelPass::warnings_of(const std::vector<Note>& of_layer) const {
  std::vector<Note> warnings;
  for (const Note& note : of_layer)
    if (note.is_warning() && std::ranges::find(notes_, note) == notes_.end())
      warnings.push_back(note);
  return warnings;
}

/// Brings the stream to the layer `to`: from where it stands, or from the beginning. A layer that
/// was computed for an observer has left there what it hands on.
void ModelPass::advance(const Sources& sources, std::size_t to) {
  if (stream_.empty() || at_ > to) stream_ = embedded(), at_ = 0, pass_ = nullptr;
  to_ = std::max(to_, to); // making a layer asks for its own input, again here
  for (; at_ < to; ++at_) {
    LayerTimes& times = times_.emplace_back();
    if (!pass_)
      times.read = seconds_of([&] {
        if (auto own = warnings_of(sources.load(layers()[at_]).notes); !own.empty())
          warnings_.push_back({layers()[at_], std::move(own)});
      });
    finish(pass_, times);
    stream_ = std::exchange(pass_, nullptr)->handed_on();
  }
}

/// Computes what the layer has not handed on yet: all of it, or the texts that were left out.
void ModelPass::finish(const std::shared_ptr<LayerPass>& pass, LayerTimes& times) {
  const std::vector<std::size_t> items = pass->missing();
  if (items.empty()) return;
  Layer layer = pass->layer();
  layer.pass = pass;
  Selection selection;
  if (layer.dims.batched) selection.batch = IndexList::of_indices(items, "--batch");
  Unobserved nothing;
  const Plan plan = make_plan(layer, nothing.wants(), selection);
  computed_s +=
      seconds_of([&] { times.phases = compute(std::move(layer), plan, nothing, threads); });
}

bool ModelPass::goes_on(const Sources& sources, const std::string& id) const {
  const std::size_t number = place_of(id);
  if (number < to_) return true;
  if (end_) return number + 1 < *end_;
  return std::ranges::any_of(sources.chosen(), [&](const std::string& chosen) {
    return chosen.empty() || place_of(chosen) > number;
  });
}

void ModelPass::began(std::shared_ptr<LayerPass> pass, const std::string& id) {
  if (place_of(id) == at_) pass_ = pass->hands_on() ? std::move(pass) : nullptr;
}

void ModelPass::add_to(Fingerprint& fingerprint) const {
  fingerprint.add(name_of(weights_->dtype()));
  for (std::size_t b = 0; b < ids_.size(); ++b)
    fingerprint.add(ids_[b].data(), ids_[b].size() * sizeof(int))
        .add(&lengths_[b], sizeof(std::size_t));
  fingerprint.add(embedding());
}

void ModelPass::rewind() {
  embed_ = {}, stream_ = {}, at_ = 0;
  pass_ = nullptr, times_.clear();
}

LayerInput ModelPass::ends(const Sources& sources, bool stream, bool outline,
                           std::shared_ptr<const ModelEnds>& ends) {
  if (outline) {
    require_streams();
    const Tensor zeros(weights_->dtype(), {ids_.size(), ids_[0].size(), model().width()});
    return input_of_ends(zeros, zeros, ends);
  }
  if (stream) advance(sources, layers().size());
  return input_of_ends(embedded(), stream ? stream_ : embedded(), ends);
}

Layer ModelPass::ends_after(const Sources& sources, std::size_t layers) {
  advance(sources, layers);
  Layer layer = ends_of(stream_);
  if (auto own = warnings_of(sources.put_patches(layer, "")); !own.empty())
    warnings_.push_back({"", std::move(own)});
  return layer;
}

Layer ModelPass::ends_of(const Tensor& stream) {
  std::shared_ptr<const ModelEnds> ends;
  const LayerInput input = input_of_ends(embedded(), stream, ends);
  return layer_of_ends(input, std::move(ends));
}

/// The model's own stages, as a layer that has nothing else.
LayerInput ModelPass::input_of_ends(const Tensor& embed, const Tensor& stream,
                                    std::shared_ptr<const ModelEnds>& ends) const {
  auto made = std::make_shared<ModelEnds>();
  made->final = model().last_norm(), made->head = model().head();
  made->embed = embed, made->stream = stream;
  LayerInput input = like_stream();
  input.X = batched_ ? embed : embed.at(0);
  ends = std::move(made);
  return input;
}

std::shared_ptr<ModelPass> pass_of(const Request& request) {
  return std::static_pointer_cast<ModelPass>(request.inputs);
}

Request on_own_pass(Request request) {
  const auto shared = pass_of(request);
  if (!shared) return request;
  const auto own = std::make_shared<ModelPass>();
  own->text = shared->text, own->threads = shared->threads;
  request.inputs = own;
  return request;
}

} // namespace mha
