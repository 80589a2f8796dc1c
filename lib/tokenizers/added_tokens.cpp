#include <mha/tokenizers/added_tokens.hpp>

#include <mha/tokenizers/text_time.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <algorithm>

namespace mha::tokenizers {

namespace {

bool is_whole_word(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t at = end;
  const bool before = begin > 0 && is_word(character_before(text, begin));
  const bool after = end < text.size() && is_word(next_character(text, at));
  return !before && !after;
}

} // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens,
                         const std::function<void(AlignedText&)>& normalize)
    : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, {}, &AddedToken::id);
  for (std::size_t i = 0; i < tokens_.size(); ++i) by_content_.emplace(tokens_[i].content, i);
  const TextTime time("its added tokens");
  // Of two tokens with the same normalized form, a special one comes first.
  for (const bool special : {true, false})
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].special != special) continue;
      std::size_t replaced = 0;
      AlignedText text = aligned(tokens_[i].content, replaced);
      if (tokens_[i].normalized && normalize) normalize(text);
      (tokens_[i].normalized ? normalized_ : written_).add(text.bytes, static_cast<int>(i));
    }
  written_.finish();
  normalized_.finish();
}

void AddedTokens::cut(AlignedText text, bool normalized, const TakeText& take) const {
  const Prefixes& sought = normalized ? normalized_ : written_;
  if (text.bytes.empty()) return;
  const std::string_view bytes = text.bytes;
  std::size_t covered = 0; // bytes already passed to `take`
  for (std::size_t at = 0; at < bytes.size();) {
    const auto found = sought.longest(bytes.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found->value)];
    std::size_t begin = at, end = at + found->length;
    at = end;
    if (token.single_word && !is_whole_word(bytes, begin, end)) continue;
    // White space that the previous token took cannot be taken twice.
    begin = std::max(begin, covered), end = std::max(end, covered);
    if (token.lstrip) begin = trim_end(bytes, begin, covered);
    if (token.rstrip) end = trim_begin(bytes, end);
    if (begin >= end) continue;
    if (covered < begin) take(text.part(covered, begin));
    AlignedText piece = text.part(begin, end);
    piece.id = token.id;
    take(std::move(piece));
    covered = end;
  }
  if (covered == 0)
    take(std::move(text));
  else if (covered < bytes.size())
    take(text.part(covered, bytes.size()));
}

const AddedToken* AddedTokens::find(int id) const {
  const auto found = std::ranges::lower_bound(tokens_, id, {}, &AddedToken::id);
  return found == tokens_.end() || found->id != id ? nullptr : &*found;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

} // namespace mha::tokenizers
