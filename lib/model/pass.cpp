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
#include <fmt/ranges.h>

namespace mha {

namespace {

/// Looks at nothing: what is handed on is seen by the layer's pass.
class Unobserved : public Observer {
public:
  StageSet wants() const override { return {}; }
  void observe(const Slice&) override {}
};

} // namespace

bool ModelPass::given() const {
  const bool cut = !text.texts.empty() || !text.files.empty(),
             bos = text.special.bos.value_or(false);
  if (text.each_line && text.files.empty())
    fail("--each-line is for the lines of a --text-file: without one it changes nothing; leave it "
         "out, or give the text in a file");
  if (text.special.none && bos)
    fail(
        "--bos and --no-special contradict each other: the one adds what the other leaves out; one "
        "of them is to go");
  if (!cut && (text.special.none || text.special.bos))
    fail("{} changes nothing: {}; leave it out, or give --text",
         text.special.none ? "--no-special"
         : bos             ? "--bos"
                           : "--no-bos",
         text.ids.empty() ? "there is no text to cut" : "--ids are the tokens as they are");
  return text.given() || opens_model || !ids_.empty();
}

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

void ModelPass::take_text() {
  notes_ = model().notes();
  read_texts();
  take_tokens();
}

/// Of token numbers, tokenizer files that cannot be read cost the labels alone.
void ModelPass::read_tokenizer(bool needed) {
  if (!needed && !weights_->has_tokenizer()) return;
  try {
    tokenizer_ = &weights_->tokenizer();
  } catch (const Error& error) {
    if (needed) throw;
    notes_.push_back(fmt::format("tokens have their numbers as labels: {}", error.what()));
  }
}

/// Checks the token numbers, and marks what is padding.
void ModelPass::take_tokens() {
  for (std::size_t b = 0; b < lengths_.size(); ++b)
    if (lengths_[b] == 0)
      fail("{}: {}has no token to compute with", source_,
           lengths_.size() > 1 ? fmt::format("text {} ", b) : "the text ");
  if (ids_.empty() || ids_[0].empty()) fail("{}: there is no token to compute with", source_);
  const std::size_t B = ids_.size(), T = ids_[0].size();
  if (const auto trained = model().trained_positions(); trained && T > *trained)
    add_note(fmt::format(
        "{} has {}, but config.json says positions for {}: what the model does "
        "behind them was never trained",
        B == 1 ? "the text"
               : fmt::format("text {}", std::ranges::find(lengths_, T) - lengths_.begin()),
        counted(T, "tokens"), *trained));
  if (const std::size_t rows = model().vocabulary();
      tokenizer_ && static_cast<std::size_t>(tokenizer_->size()) > rows)
    add_note(warning(
        fmt::format("the tokenizer has {}, the model {}: is it another model's? Texts may be cut "
                    "into tokens that the model does not know",
                    counted(static_cast<std::size_t>(tokenizer_->size()), "tokens"), rows)));
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

/// Vectors are a table with a row for each token of each text.
void ModelPass::read_vectors() {
  source_ = "--inputs-embeds";
  const Tensor rows = read_embedding_rows(text.rows, model().embedding().tokens.shape()[1]);
  const std::size_t B = rows.rank() == 3 ? rows.shape()[0] : 1, width = rows.shape().back();
  Embedding own = model().embedding();
  own.tokens = rows.reshaped({rows.count() / width, width});
  own = embedding_behind(own, B, model().first_rows(), weights_->dtype());
  const std::size_t T = own.tokens.shape()[0] / B;
  // Counted from the padding's number, as Transformers does for vectors: none is padding.
  if (own.pad) own.first_position = static_cast<std::size_t>(*std::exchange(own.pad, {})) + 1;
  of_rows_ = std::move(own);
  ids_.assign(B, std::vector<int>(T));
  for (std::size_t b = 0; b < B; ++b)
    std::iota(ids_[b].begin(), ids_[b].end(), static_cast<int>(b * T));
  lengths_.assign(B, T);
  batched_ = rows.rank() == 3 || text.batch;
}

void ModelPass::require_token_numbers(std::string_view what) const {
  if (of_rows_)
    fail("--inputs-embeds are vectors, of which no token is known: {} needs --ids or a text", what);
}

/// Numbers as they are; texts as the tokenizer beside the checkpoint cuts them.
void ModelPass::read_texts() {
  const bool of_text = !text.texts.empty() || !text.files.empty();
  if (of_text && !text.ids.empty()) fail("--ids and a text are both given; one of them is to go");
  if (!text.rows.empty()) {
    if (of_text || !text.ids.empty())
      fail("--inputs-embeds stand in the place of tokens: {} is to go",
           of_text ? "the text" : "--ids");
    return read_vectors();
  }
  const int pad = model().pad().value_or(0);
  read_tokenizer(of_text);
  TokenIds read;
  if (of_text) {
    require_first_segment(*tokenizer_, model());
    std::ranges::copy(tokenizer_->notes(), std::back_inserter(notes_));
    source_ = text.texts.empty() ? "--text-file" : "--text";
    std::vector<std::vector<int>> texts;
    const std::vector<std::string> given = texts_of(text.texts, text.files, text.each_line);
    for (const std::string& one : given) {
      const tokenizers::Encoding encoding = tokenizer_->encode(one, text.special);
      std::ranges::move(notes_of_text(encoding.notes, texts.size(), given.size() > 1),
                        std::back_inserter(notes_));
      texts.push_back(encoding.ids());
    }
    const bool several = texts.size() > 1;
    read = padded(std::move(texts), several, pad);
  } else {
    source_ = "--ids";
    read = read_ids(text.ids, pad);
    std::ranges::move(read.notes, std::back_inserter(notes_));
  }
  ids_ = std::move(read.ids), lengths_ = std::move(read.lengths);
  batched_ = read.batched || text.batch;
}

std::string ModelPass::label(int id) const {
  return tokenizer_ ? tokenizer_->label(id) : fmt::format("{}", id);
}

std::string ModelPass::plain(int id) const {
  return tokenizer_ ? tokenizer_->text_in_utf8(id) : fmt::format("{}", id);
}

std::string ModelPass::piece(int id) const {
  if (!tokenizer_) return "";
  return std::string(tokenizer_->piece_of(id).value_or(""));
}

int ModelPass::token_of(const std::string& word, std::string_view option,
                        std::string_view cure) const {
  if (!tokenizer_) fail("'{}': the model has no tokenizer; give the token's number", word);
  std::string pieces;
  for (const std::string& tried : {word, " " + word}) {
    const tokenizers::Encoding encoding = tokenizer_->encode(tried, {.none = true});
    const std::vector<int> ids = encoding.ids();
    const auto missing = std::ranges::find_if(encoding.notes, &Note::is_warning);
    if (missing != encoding.notes.end()) // an unknown token stands for every word
      fail("{} '{}': {}; say a token of the vocabulary{}", option, word, missing->text, cure);
    if (ids.size() == 1) return ids[0];
    for (const int one : pieces.empty() ? ids : std::vector<int>())
      pieces += fmt::format("{}'{}' ({})", pieces.empty() ? "" : ", ", label(one), one);
  }
  fail("{} '{}' is no single token: {}; say one of them{}", option, word, pieces, cure);
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
  if (model().causal()) return position + 1 == lengths_[batch];
  const std::optional<int> mask = tokenizer_ ? tokenizer_->mask() : std::nullopt;
  return mask && position < lengths_[batch] && ids_[batch][position] == *mask;
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

/// A layer's warnings, without what is said of the text.
void ModelPass::keep_warnings(const std::vector<Note>& of_layer) {
  OfLayer kept{layers()[at_], {}};
  for (const Note& note : of_layer)
    if (note.is_warning() && std::ranges::find(notes_, note) == notes_.end())
      kept.warnings.push_back(note);
  if (!kept.warnings.empty()) warnings_.push_back(std::move(kept));
}

/// Brings the stream to the layer `to`: from where it stands, or from the beginning. A layer that
/// was computed for an observer has left there what it hands on.
void ModelPass::advance(const Sources& sources, std::size_t to) {
  if (stream_.empty() || at_ > to) stream_ = embedded(), at_ = 0, pass_ = nullptr;
  to_ = std::max(to_, to); // making a layer asks for its own input, again here
  for (; at_ < to; ++at_) {
    LayerTimes& times = times_.emplace_back();
    if (!pass_) times.read = seconds_of([&] { keep_warnings(sources.load(layers()[at_]).notes); });
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
  if (layer.dims.batched)
    selection.batch = IndexList(fmt::format("{}", fmt::join(items, ",")), "--batch");
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
  sources.put_patches(layer, "");
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

void require_first_segment(const tokenizers::Tokenizer& tokenizer, const WholeModel& model) {
  if (tokenizer.segment() == 0 || model.embedding().types.empty()) return;
  fail("tokenizer.json: its template gives type_id {} to tokens of a text: every token is of "
       "segment "
       "0 here; give the token numbers by --ids to compute them so",
       tokenizer.segment());
}

std::vector<Note> notes_of_text(std::vector<Note> notes, std::size_t text, bool several) {
  for (Note& note : notes)
    if (several) note.text = fmt::format("text {}: {}", text, note.text);
  return notes;
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
