// The tokens of texts, or vectors in their place.

#include <mha/model/texts.hpp>

#include <mha/forward/embedding.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mha {

Texts::Texts(std::shared_ptr<const Weights> weights, const Text& text)
    : weights_(std::move(weights)), notes_(model().notes()) {
  read(text);
  take_tokens([&](std::size_t b) { return place_of_text(text, b); });
}

Texts::Texts(std::shared_ptr<const Weights> weights, TokenIds tokens, std::string source,
             bool labelled)
    : weights_(std::move(weights)),
      notes_(model().notes()),
      ids_(std::move(tokens.ids)),
      lengths_(std::move(tokens.lengths)),
      batched_(tokens.batched),
      source_(std::move(source)) {
  if (labelled) read_tokenizer(false);
  take_tokens();
}

Texts::Texts(const Texts& texts, std::size_t first, std::size_t count, std::string source,
             bool batched)
    : weights_(texts.weights_),
      tokenizer_(texts.tokenizer_),
      notes_(weights_->notes_of_sources()),
      batched_(batched),
      source_(std::move(source)),
      of_rows_(texts.of_rows_) {
  std::vector<std::vector<int>> own;
  for (std::size_t b = first; b < first + count; ++b) {
    const std::size_t text = b % texts.ids_.size();
    const auto begin = texts.ids_[text].begin();
    own.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(texts.lengths_[text]));
  }
  TokenIds some = padded(std::move(own), batched, model().pad().value_or(0));
  ids_ = std::move(some.ids), lengths_ = std::move(some.lengths);
}

Texts::Texts(const Texts& texts, std::size_t from)
    : weights_(texts.weights_),
      tokenizer_(texts.tokenizer_),
      notes_(texts.notes_),
      ids_(texts.ids_),
      lengths_(texts.lengths_),
      batched_(texts.batched_),
      source_(texts.source_),
      first_position_(texts.first_position_ + from),
      of_rows_(texts.of_rows_) {
  for (std::size_t b = 0; b < ids_.size(); ++b) {
    if (lengths_[b] != ids_[b].size())
      fail("{}: the texts have several lengths, so what comes after token {} differs in length: "
           "give "
           "one text, or texts of equal lengths",
           source_, from);
    if (from >= lengths_[b])
      fail("{}: text {} has {}: none comes after token {}", source_, b,
           counted(lengths_[b], "tokens"), from);
    ids_[b].erase(ids_[b].begin(), ids_[b].begin() + static_cast<std::ptrdiff_t>(from));
    lengths_[b] -= from;
  }
}

/// Reads the tokenizer. Token numbers need it for their labels alone, so they do without one that
/// cannot be read.
void Texts::read_tokenizer(bool needed) {
  if (!needed && !weights_->has_tokenizer()) return;
  try {
    tokenizer_ = &weights_->tokenizer();
  } catch (const Error& error) {
    if (needed) throw;
    notes_.push_back(message("tokens have their numbers as labels: {}", error.message()));
  }
}

/// Checks the lengths of the texts, and notes what the model was not trained for.
void Texts::take_tokens(const std::function<std::string(std::size_t)>& place_of) {
  const auto place = [&](std::size_t b) {
    return place_of ? place_of(b) : fmt::format("text {}", b);
  };
  if (const auto empty = std::ranges::find(lengths_, 0U); empty != lengths_.end()) {
    if (lengths_.size() == 1) fail("{}: the text has no token to compute with", source_);
    const std::string more = std::ranges::count(lengths_, 0U) > 1 ? ", nor have others" : "";
    fail("{}: {} has no token to compute with{}; leave empty texts out", source_,
         place(static_cast<std::size_t>(empty - lengths_.begin())), more);
  }
  if (ids_.empty() || ids_[0].empty()) fail("{}: there is no token to compute with", source_);
  const std::size_t B = ids_.size(), T = ids_[0].size();
  if (const auto trained = model().trained_positions(); trained && T > *trained)
    notes_.emplace_back(fmt::format(
        "{} has {}, but config.json has positions for {}: what the model does "
        "after them was never trained",
        B == 1 ? "the text"
               : fmt::format("text {}", std::ranges::find(lengths_, T) - lengths_.begin()),
        counted(T, "tokens"), *trained));
  if (const std::size_t rows = model().vocabulary();
      tokenizer_ && static_cast<std::size_t>(tokenizer_->size()) > rows)
    notes_.push_back(warning(
        fmt::format("the tokenizer has {}, the model {}: is it another model's? Texts may be cut "
                    "into tokens that the model does not know",
                    counted(static_cast<std::size_t>(tokenizer_->size()), "tokens"), rows)));
  std::ranges::copy(weights_->notes_of_sources(), std::back_inserter(notes_));
}

/// Reads vectors as a table with a row for each token of each text.
void Texts::read_vectors(const Text& text) {
  source_ = setting_in_words("inputs_embeds", weights_->wording());
  const Tensor rows = read_embedding_rows(text.rows, model().embedding().tokens.shape()[1]);
  const std::size_t B = rows.rank() == 3 ? rows.shape()[0] : 1, width = rows.shape().back();
  Embedding own = model().embedding();
  own.tokens = rows.reshaped({rows.count() / width, width});
  own = embedding_after(own, B, model().first_rows(), weights_->dtype());
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

void Texts::require_token_numbers(std::string_view what) const {
  if (of_rows_)
    fail("<inputs_embeds> are vectors, of which no token is known: {} needs <ids> or a text", what);
}

/// Takes token numbers, or cuts texts with the checkpoint's tokenizer.
void Texts::read(const Text& text) {
  const bool of_text = !text.texts.empty() || !text.files.empty();
  if (of_text && !text.ids.empty()) fail("<ids> and a text are both given; remove one of them");
  if (!text.rows.empty()) {
    if (of_text || !text.ids.empty())
      fail("<inputs_embeds> replace tokens: remove {}", of_text ? "the text" : message("<ids>"));
    return read_vectors(text);
  }
  const int pad = model().pad().value_or(0);
  read_tokenizer(of_text);
  TokenIds tokens;
  if (of_text) {
    require_first_segment(*tokenizer_, model());
    std::ranges::copy(tokenizer_->notes(), std::back_inserter(notes_));
    source_ = setting_in_words(text.texts.empty() ? "text_file" : "text", weights_->wording());
    std::vector<std::vector<int>> texts;
    const std::vector<std::string> given = texts_of(text.texts, text.files, text.each_line);
    std::ranges::move(notes_of_line_feeds(text, given), std::back_inserter(notes_));
    for (const std::string& typed : given) {
      const tokenizers::Encoding encoding = tokenizer_->encode(typed, text.special);
      std::ranges::move(notes_of_text(encoding.notes, texts.size(), given.size() > 1),
                        std::back_inserter(notes_));
      texts.push_back(encoding.ids());
    }
    const bool several = texts.size() > 1;
    tokens = padded(std::move(texts), several, pad);
  } else {
    source_ = setting_in_words("ids", weights_->wording());
    tokens = read_ids(text.ids, pad);
    std::ranges::move(tokens.notes, std::back_inserter(notes_));
  }
  ids_ = std::move(tokens.ids), lengths_ = std::move(tokens.lengths);
  batched_ = tokens.batched || text.batch;
}

std::size_t Texts::tokens() const {
  return std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0});
}

std::string Texts::label(int id) const {
  return tokenizer_ ? tokenizer_->label(id) : fmt::format("{}", id);
}

std::string Texts::plain(int id) const {
  return tokenizer_ ? tokenizer_->text_in_utf8(id) : fmt::format("{}", id);
}

std::string Texts::plain(std::span<const int> ids) const {
  if (tokenizer_) return tokenizer_->text_in_utf8(ids);
  return fmt::format("{}", fmt::join(ids, " "));
}

bool Texts::begins_word(int id) const {
  return !tokenizer_ || tokenizer_->begins_word(id);
}

std::string Texts::piece(int id) const {
  if (!tokenizer_) return "";
  return std::string(tokenizer_->piece_of(id).value_or(""));
}

int Texts::token_of(const std::string& word, std::string_view option, std::string_view cure) const {
  if (!tokenizer_) fail("'{}': the model has no tokenizer; give the token's number", word);
  std::string pieces;
  for (const std::string& tried : {word, " " + word}) {
    const tokenizers::Encoding encoding = tokenizer_->encode(tried, {.none = true});
    const std::vector<int> ids = encoding.ids();
    const auto missing = std::ranges::find_if(encoding.notes, &Note::is_warning);
    if (missing != encoding.notes.end()) // unknown words all have this token
      fail("{} '{}': {}; give a token of the vocabulary{}", option, word, missing->text, cure);
    if (ids.size() == 1) return ids[0];
    for (const int one : pieces.empty() ? ids : std::vector<int>())
      pieces += fmt::format("{}'{}' ({})", pieces.empty() ? "" : ", ", label(one), one);
  }
  fail("{} '{}' is not a single token: {}; give one of them{}", option, word, pieces, cure);
}

std::vector<std::pair<std::size_t, std::size_t>> Texts::hidden_positions() const {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  const std::optional<int> mask = tokenizer_ ? tokenizer_->mask() : std::nullopt;
  for (std::size_t b = 0; mask && b < ids_.size(); ++b)
    for (std::size_t t = 0; t < lengths_[b]; ++t)
      if (ids_[b][t] == *mask) places.emplace_back(b, t);
  return places;
}

bool Texts::is_asked(std::size_t batch, std::size_t position) const {
  if (model().causal()) return position + 1 == lengths_[batch];
  const std::optional<int> mask = tokenizer_ ? tokenizer_->mask() : std::nullopt;
  return mask && position < lengths_[batch] && ids_[batch][position] == *mask;
}

void require_first_segment(const tokenizers::Tokenizer& tokenizer, const WholeModel& model) {
  if (tokenizer.type_id() == 0 || model.embedding().types.empty()) return;
  fail("tokenizer.json: its template gives type_id {} to tokens of a text: every token is of "
       "segment "
       "0 here; give the token numbers by <ids> to compute them so",
       tokenizer.type_id());
}

std::vector<Note> notes_of_text(std::vector<Note> notes, std::size_t text, bool several) {
  for (Note& note : notes)
    if (several) note = {message("text {}: {}", text, note.message), note.severity};
  return notes;
}

} // namespace mha
