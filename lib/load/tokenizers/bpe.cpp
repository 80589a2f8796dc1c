// Byte-pair encoding: a word's characters, of which pairs are merged, the pair of lowest rank
// first.

#include <mha/load/tokenizers/bpe.hpp>

#include <mha/load/tokenizers/unicode.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <array>
#include <queue>

namespace mha::tokenizers {

namespace {

std::uint64_t pair_of(int left, int right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// A token that may still grow: a link of the chain that the word is.
struct Link {
  Cut cut;
  std::size_t before, behind; ///< places of its neighbours; `nowhere` at the ends
  bool gone = false;          ///< merged into the one before
};
constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// A merge that could be made when it was noted.
struct Candidate {
  int rank, id;
  std::size_t place; ///< of its left part
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : place > other.place;
  }
};

} // namespace

Bpe::Bpe(Vocabulary vocabulary, BpeSettings settings) : settings_(std::move(settings)) {
  vocabulary_ = std::move(vocabulary), unknown_ = settings_.unknown;
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes_[byte] = vocabulary_.id_of(fmt::format("<0x{:02X}>", byte));
}

void Bpe::add_merge(std::string_view left, std::string_view right) {
  const auto id_of = [&](std::string_view piece) {
    const auto id = vocabulary_.id_of(piece);
    if (!id) fail("a merge of '{}', which is not in the vocabulary", io::shown(piece));
    return *id;
  };
  const int first = id_of(left), second = id_of(right);
  if (right.size() >= settings_.prefix.size()) right.remove_prefix(settings_.prefix.size());
  const int merged = id_of(std::string(left) += right);
  merges_[pair_of(first, second)] = {static_cast<int>(count_++), merged};
}

void Bpe::cut(std::string_view word, std::vector<Cut>& tokens) const {
  if (settings_.ignore_merges)
    if (const auto id = vocabulary_.id_of(word)) {
      tokens.push_back({*id, 0, word.size()});
      return;
    }
  std::vector<Cut> list = characters(word);
  merge(list);
  tokens.insert(tokens.end(), list.begin(), list.end());
}

bool Bpe::in_bytes(std::string_view piece, Cut place, std::vector<Cut>& list) const {
  const auto known = [&](char c) { return bytes_[static_cast<unsigned char>(c)].has_value(); };
  if (!settings_.byte_fallback || !std::ranges::all_of(piece, known)) return false;
  // Each byte has its own place in the word; a suffix, which the word lacks, has the last.
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const std::size_t begin = std::min(place.begin + i, place.end - 1);
    list.push_back({*bytes_[static_cast<unsigned char>(piece[i])], begin, begin + 1});
  }
  return true;
}

std::vector<Cut> Bpe::characters(std::string_view word) const {
  std::vector<Cut> list;
  list.reserve(word.size());
  std::string piece;
  bool fusing = false; // the token before is an unknown one
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t first = at;
    at += length_of(word[at]);
    piece = first > 0 ? settings_.prefix : "";
    piece += word.substr(first, at - first);
    if (at == word.size()) piece += settings_.suffix;
    if (const auto id = vocabulary_.id_of(piece)) {
      list.push_back({*id, first, at});
      fusing = false;
    } else if (in_bytes(piece, {0, first, at}, list)) {
      fusing = false;
    } else if (settings_.unknown) {
      if (fusing && settings_.fuse_unk)
        list.back().end = at;
      else
        list.push_back({*settings_.unknown, first, at});
      fusing = true;
    }
  }
  return list;
}

void Bpe::merge(std::vector<Cut>& tokens) const {
  std::vector<Link> links;
  links.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    links.push_back({tokens[i], i == 0 ? nowhere : i - 1, i + 1 < tokens.size() ? i + 1 : nowhere});
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto find = [&](std::size_t place) {
    return merges_.find(pair_of(links[place].cut.id, links[links[place].behind].cut.id));
  };
  const auto note = [&](std::size_t place) {
    if (place == nowhere || links[place].behind == nowhere) return;
    if (const auto found = find(place); found != merges_.end())
      queue.push({found->second.rank, found->second.id, place});
  };
  for (std::size_t i = 0; i < links.size(); ++i) note(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Link& left = links[best.place];
    if (left.gone || left.behind == nowhere) continue;
    // Either part may have grown since; then this is another merge, or none.
    const auto found = find(best.place);
    if (found == merges_.end() || found->second.id != best.id) continue;
    Link& right = links[left.behind];
    left.cut.id = best.id;
    left.cut.end = right.cut.end;
    right.gone = true;
    left.behind = right.behind;
    if (left.behind != nowhere) links[left.behind].before = best.place;
    note(left.before);
    note(best.place);
  }
  tokens.clear();
  for (const Link& link : links)
    if (!link.gone) tokens.push_back(link.cut);
}

} // namespace mha::tokenizers
