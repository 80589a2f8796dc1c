// What a pass computes: the tokens of texts, or vectors in their place.

#include <mha/model/pass.hpp>

#include <mha/forward/embedding.hpp>
#include <mha/load/load.hpp>
#include <mha/system/limits.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mha {

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

std::string ModelPass::plain(std::span<const int> ids) const {
  if (tokenizer_) return tokenizer_->text_in_utf8(ids);
  return fmt::format("{}", fmt::join(ids, " "));
}

bool ModelPass::begins_word(int id) const {
  return !tokenizer_ || tokenizer_->begins_word(id);
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

} // namespace mha
