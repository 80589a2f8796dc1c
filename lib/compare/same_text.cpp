#include <mha/compare/same_text.hpp>

#include <mha/compare/captures.hpp>
#include <mha/compare/parts.hpp>
#include <mha/files/text.hpp>
#include <mha/load/source.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

namespace {

using Ids = std::vector<int>;

std::string list_of_ids(const Ids& ids) {
  constexpr std::size_t shown_at_most = 24;
  const Ids shown(ids.begin(),
                  ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), shown_at_most)));
  return fmt::format("{}{}", fmt::join(shown, ","), ids.size() > shown_at_most ? ",…" : "");
}

bool ends_with(const Ids& longer, const Ids& ids) {
  return longer.size() >= ids.size() && std::equal(ids.rbegin(), ids.rend(), longer.rbegin());
}
bool begins_with(const Ids& longer, const Ids& ids) {
  return longer.size() >= ids.size() && std::equal(ids.begin(), ids.end(), longer.begin());
}

/// Describes how a reference's tokens differ, and what to do.
Message other_tokens(const Ids& theirs, const Ids& own) {
  if (theirs.size() > own.size() && ends_with(theirs, own)) {
    const Ids more(theirs.begin(), theirs.end() - static_cast<std::ptrdiff_t>(own.size()));
    if (more.size() == 1)
      return message("its text begins with token {}, which this one lacks: the same tokens are "
                     "needed, with <bos>, or by <ids> {}",
                     more[0], list_of_ids(theirs));
    const bool alike =
        std::ranges::count(more, more[0]) == static_cast<std::ptrdiff_t>(more.size());
    return message("its text begins with {} tokens that this one lacks, {}: the same tokens "
                   "are needed, by <ids> {}{}",
                   more.size(), list_of_ids(more), list_of_ids(theirs),
                   alike ? "; if they are padding, save attention_mask beside it" : "");
  }
  if (theirs.size() + 1 == own.size() && ends_with(own, theirs))
    return message("its text lacks the first token {} that this one begins with: the same "
                   "tokens are needed, with <special false>, or by <ids> {}",
                   own[0], list_of_ids(theirs));
  if (theirs.size() == own.size() && !own.empty() && theirs[0] != own[0]) {
    const int by = theirs[0] - own[0];
    bool moved = own.size() > 1;
    for (std::size_t i = 0; i < own.size(); ++i) moved = moved && theirs[i] - own[i] == by;
    if (moved)
      return message("its tokens are this text's, each number {} by {}: its tokenizer counts "
                     "otherwise, or its embedding's rows are moved; for the same tokens, <ids> {}",
                     by > 0 ? "larger" : "smaller", std::abs(by), list_of_ids(theirs));
  }
  const bool doubled = theirs.size() == own.size() && theirs.size() > 1 && theirs[0] == theirs[1] &&
                       std::equal(theirs.begin() + 1, theirs.end(), own.begin());
  return message("its tokens are {}, this text's {}: the same ones are needed, by <ids> {}{}",
                 list_of_ids(theirs), list_of_ids(own), list_of_ids(theirs),
                 doubled ? " (a first token is doubled there)" : "");
}

/// The place of the text in a reference of these tokens, if it has one.
std::optional<TextPlace> place_in(const TokensOfReference& theirs, const Ids& own,
                                  std::optional<int> pad) {
  TextPlace place;
  place.items = theirs.ids.size(), place.rows = theirs.ids.empty() ? 0 : theirs.ids[0].size();
  for (std::size_t item = 0; item < theirs.ids.size(); ++item) {
    const Ids& ids = theirs.ids[item];
    const bool masked = item < theirs.mask.size() && theirs.mask[item].size() == ids.size();
    place.item = item, place.first = 0;
    if (!masked) {
      if (begins_with(ids, own)) return place;
      std::size_t padding = 0;
      while (padding < ids.size() && pad && ids[padding] == *pad && ids[padding] != own[0])
        ++padding;
      place.first = padding;
      if (begins_with(Ids(ids.begin() + static_cast<std::ptrdiff_t>(padding), ids.end()), own))
        return place;
      continue;
    }
    const std::vector<int>& mask = theirs.mask[item];
    Ids kept;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (mask[i] != 0) kept.push_back(ids[i]);
    place.first = static_cast<std::size_t>(
        std::ranges::find_if(mask, [](int m) { return m != 0; }) - mask.begin());
    if (begins_with(kept, own) && place.first + own.size() <= ids.size() &&
        std::all_of(mask.begin() + static_cast<std::ptrdiff_t>(place.first),
                    mask.begin() + static_cast<std::ptrdiff_t>(place.first + own.size()),
                    [](int m) { return m != 0; }))
      return place;
  }
  return std::nullopt;
}

/// A text of a batch without the padding after it.
Ids own_tokens(const ComputedText& text, std::size_t b) {
  Ids own = text.ids[b];
  if (!text.lengths.empty()) own.resize(text.lengths[b]);
  return own;
}

/// Whether all numbers around a text's tokens are one, as in padding.
bool is_padding_around(const Ids& ids, std::size_t first, std::size_t tokens) {
  Ids rest = ids;
  const auto begin = rest.begin() + static_cast<std::ptrdiff_t>(first);
  rest.erase(begin, begin + static_cast<std::ptrdiff_t>(tokens));
  return std::ranges::all_of(rest, [&](int id) { return id == rest[0]; });
}

/// The first row of each of several texts in a padded reference.
std::optional<std::vector<std::size_t>> first_rows_of(const TokensOfReference& theirs,
                                                      const ComputedText& text) {
  const bool masked = !theirs.mask.empty();
  if (theirs.ids.size() != text.ids.size() || (masked && theirs.mask.size() != text.ids.size()))
    return std::nullopt;
  // A token that only some texts begin with is padding, not a first token of all.
  bool some_begin = false;
  for (std::size_t b = 0; b < text.ids.size(); ++b)
    some_begin = some_begin || begins_with(theirs.ids[b], own_tokens(text, b));
  std::vector<std::size_t> firsts;
  for (std::size_t b = 0; b < text.ids.size(); ++b) {
    const Ids own = own_tokens(text, b);
    TokensOfReference text_alone;
    text_alone.ids = {theirs.ids[b]};
    if (masked) text_alone.mask = {theirs.mask[b]};
    std::optional<int> pad = text.pad;
    if (!pad && some_begin && !text_alone.ids[0].empty()) pad = text_alone.ids[0][0];
    const std::optional<TextPlace> place = place_in(text_alone, own, pad);
    if (!place) return std::nullopt;
    const bool alone =
        masked ? static_cast<std::size_t>(std::ranges::count(theirs.mask[b], 1)) == own.size()
               : is_padding_around(theirs.ids[b], place->first, own.size());
    if (!alone) return std::nullopt;
    firsts.push_back(place->first);
  }
  return firsts;
}

std::string note_of(const TextPlace& place, std::size_t T, bool masked, bool causal) {
  std::string note;
  if (place.items > 1) note += fmt::format("item {} of {} is this text", place.item, place.items);
  if (place.rows == T) return note;
  const std::size_t after = place.rows - T - place.first;
  note += fmt::format("{}tokens {}–{} of {} are this text's", note.empty() ? "" : ", ", place.first,
                      place.first + T - 1, place.rows);
  if (place.first > 0) note += fmt::format(", after {} of padding", place.first);
  if (after > 0 && !masked && !causal)
    note += "; the tokens after them change them unless a mask hides them";
  return note;
}

/// Describes a reference with other tokens if only its number of rows is known.
Message other_rows(std::size_t rows, std::size_t T) {
  const Message cure =
      rows == T + 1   ? message("a first token more (<bos>)? The same text is needed")
      : rows + 1 == T ? message("a first token less (<special false>)? The same text is needed")
      : rows > T      ? message("the same text is needed, without padding; or save input_ids and "
                                     "attention_mask beside it")
                      : message("the same text is needed");
  return message("it is of {} tokens, this text has {}: {}", rows, T, cure);
}

/// Notes the padding around a text of T tokens, which begins at row `first` of these.
void note_padding(const Ids& ids, std::size_t first, std::size_t T, SameText& result) {
  const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
  result.tokens_before.emplace_back(ids.begin(), begin);
  const std::size_t left = ids.size() - first;
  result.tokens_after.emplace_back(begin + static_cast<std::ptrdiff_t>(std::min(T, left)),
                                   ids.end());
}

} // namespace

SameText keep_same_text(const ReferenceFiles& files, const ComputedText& text) {
  SameText result;
  if (text.ids.empty()) return result;
  const std::size_t T = text.ids[0].size();
  for (const std::string& words : files.texts()) {
    const io::Source source = io::parse_source(words);
    const std::optional<std::string> path = files.file_of(source);
    if (!path || io::mentions_layer(source)) continue;
    const std::shared_ptr<const ReferenceFile> file = files.open(*path);
    const std::string name = io::shown(file->contents().name);
    const TokensOfReference theirs = tokens_of(*file, text);
    if (theirs.ids.empty()) {
      if (theirs.rows > 1 && theirs.rows != T) {
        result.why = message("{}: {}", name, other_rows(theirs.rows, T));
        return result;
      }
      continue;
    }
    if (theirs.ids == text.ids) continue;
    if (const auto firsts = text.ids.size() > 1 ? first_rows_of(theirs, text) : std::nullopt) {
      files.keep_texts(*path, *firsts, theirs.ids[0].size(), T);
      for (std::size_t b = 0; result.tokens_before.size() < text.ids.size(); ++b)
        note_padding(theirs.ids[b], (*firsts)[b], text.lengths.empty() ? T : text.lengths[b],
                     result);
      result.notes.push_back(fmt::format("{}: rows of padding around the tokens are left out{}",
                                         name, theirs.mask.empty() ? "" : ", by attention_mask"));
      continue;
    }
    if (text.ids.size() > 1) {
      const std::size_t texts = text.ids.size();
      if (theirs.ids.size() != texts) {
        result.why =
            message("{}: it is of {} texts, {} are computed here: the same ones are needed", name,
                    theirs.ids.size(), texts);
        return result;
      }
      std::size_t b = 0; // the first text that differs
      while (b + 1 < texts && begins_with(theirs.ids[b], own_tokens(text, b))) ++b;
      result.why =
          message("{}: text {}: {}", name, b, other_tokens(theirs.ids[b], own_tokens(text, b)));
      return result;
    }
    const std::optional<TextPlace> place = place_in(theirs, text.ids[0], text.pad);
    if (!place) {
      result.why = message("{}: {}", name, other_tokens(theirs.ids[0], text.ids[0]));
      return result;
    }
    files.keep_text(*path, *place, T);
    if (result.tokens_before.empty())
      note_padding(theirs.ids[place->item], place->first, T, result);
    result.notes.push_back(
        fmt::format("{}: {}", name, note_of(*place, T, !theirs.mask.empty(), text.causal)));
  }
  return result;
}

} // namespace mha
