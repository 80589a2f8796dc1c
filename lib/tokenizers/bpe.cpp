// Byte-pair encoding: pairs of a word's characters are merged, the pair of lowest rank first.

#include <mha/tokenizers/bpe.hpp>

#include <mha/tokenizers/unicode.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

namespace mha::tokenizers {

namespace {

/// A token that may still grow, in a linked list of the word's tokens.
struct Link {
  std::uint32_t begin, end;
  int id;                      ///< -1: merged into the previous one
  std::uint32_t before, after; ///< indices of its neighbours; `nowhere` at the ends
};
constexpr std::uint32_t nowhere = static_cast<std::uint32_t>(-1);
constexpr std::size_t fewest_merge_slots = 1024;

/// A merge that was possible when it was queued.
struct Candidate {
  std::uint32_t rank, place; ///< `place` is the index of its left part
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : place > other.place;
  }
};

std::uint64_t pair_of(int left, int right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

std::size_t spread(std::uint64_t pair) {
  const std::uint64_t hash = pair * 0x9e3779b97f4a7c15;
  return static_cast<std::size_t>((hash ^ hash >> 32) * 0xd6e8feb86659fd93 >> 32);
}

} // namespace

std::size_t Merges::slot_of(std::uint64_t pair) const {
  const std::size_t last = slots_.size() - 1;
  std::size_t at = spread(pair) & last;
  while (slots_[at].rank != 0 && slots_[at].pair != pair) at = (at + 1) & last;
  return at;
}

void Merges::reserve(std::size_t count) {
  merged_.reserve(count);
  set_slots(std::bit_ceil(std::max(fewest_merge_slots, count * 3 / 2 + 1)));
}

void Merges::set_slots(std::size_t count) {
  if (count <= slots_.size()) return;
  std::vector<PairSlot> old(count);
  old.swap(slots_);
  for (const PairSlot& slot : old)
    if (slot.rank != 0) slots_[slot_of(slot.pair)] = slot;
}

void Merges::add(std::span<const MergedPair> merges) {
  while ((merged_.size() + merges.size()) * 3 > slots_.size() * 2)
    set_slots(std::max(fewest_merge_slots, slots_.size() * 2));
  // Prefetching lets the cache misses overlap.
  for (const MergedPair& merge : merges)
    __builtin_prefetch(&slots_[spread(pair_of(merge.left, merge.right)) & (slots_.size() - 1)]);
  for (const MergedPair& merge : merges) {
    merged_.push_back(merge.merged);
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    slots_[slot_of(pair)] = {pair, static_cast<std::uint32_t>(merged_.size())};
  }
}

std::optional<std::uint32_t> Merges::rank_of(int left, int right) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t rank = slots_[slot_of(pair_of(left, right))].rank;
  return rank == 0 ? std::nullopt : std::optional(rank - 1);
}

Bpe::Bpe(Vocabulary vocabulary, BpeSettings settings) : settings_(std::move(settings)) {
  vocabulary_ = std::move(vocabulary), unknown_ = settings_.unknown;
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes_[byte] = vocabulary_.id_of(fmt::format("<0x{:02X}>", byte));
}

/// The id of two parts as one piece, or -1.
int Bpe::merged_of(std::string_view left, std::string_view right) {
  if (right.size() >= settings_.prefix.size()) right.remove_prefix(settings_.prefix.size());
  both_.assign(left).append(right);
  // Vocabularies usually list the results of merges in the order of the merges.
  for (const int likely : {last_merged_, last_merged_ + 1})
    if (vocabulary_.piece_of(likely) == both_) return likely;
  return vocabulary_.id_of(both_).value_or(-1);
}

std::optional<Bpe::Impossible> Bpe::add_merges(std::span<const std::string_view> left,
                                               std::span<const std::string_view> right) {
  std::array<int, at_once> first, second;
  std::array<Merges::MergedPair, at_once> merges;
  const std::size_t count = left.size();
  vocabulary_.ids_of(left, std::span(first).first(count));
  vocabulary_.ids_of(right, std::span(second).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    const auto lacks = [&](std::string_view piece) {
      merges_.add(std::span(merges).first(i));
      return Impossible{
          i, fmt::format("a merge of '{}', which is not in the vocabulary", io::shown(piece))};
    };
    if (first[i] < 0) return lacks(left[i]);
    if (second[i] < 0) return lacks(right[i]);
    const int merged = merged_of(left[i], right[i]);
    if (merged < 0) return lacks(both_);
    merges[i] = {first[i], second[i], last_merged_ = merged};
  }
  merges_.add(std::span(merges).first(count));
  return std::nullopt;
}

void Bpe::add_merge(std::string_view left, std::string_view right) {
  if (const auto impossible = add_merges({&left, 1}, {&right, 1})) fail("{}", impossible->why);
}

void Bpe::cut(std::string_view word, std::vector<Cut>& tokens) const {
  if (settings_.ignore_merges)
    if (const auto id = vocabulary_.id_of(word)) {
      tokens.push_back({*id, 0, static_cast<std::uint32_t>(word.size())});
      return;
    }
  std::vector<Cut> list = characters(word);
  merge(list);
  tokens.insert(tokens.end(), list.begin(), list.end());
}

bool Bpe::in_bytes(std::string_view piece, Cut place, std::vector<Cut>& list) const {
  const auto known = [&](char c) { return bytes_[static_cast<unsigned char>(c)].has_value(); };
  if (!settings_.byte_fallback || !std::ranges::all_of(piece, known)) return false;
  // Each byte has its own position in the word; bytes of a suffix, which the word lacks, have the
  // last position.
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const std::uint32_t begin =
        std::min(place.begin + static_cast<std::uint32_t>(i), place.end - 1);
    list.push_back({*bytes_[static_cast<unsigned char>(piece[i])], begin, begin + 1});
  }
  return true;
}

std::vector<Cut> Bpe::characters(std::string_view word) const {
  std::vector<Cut> list;
  list.reserve(word.size());
  std::string piece;
  bool fusing = false; // the previous token is the unknown one
  const auto last = static_cast<std::uint32_t>(word.size());
  for (std::uint32_t at = 0; at < last;) {
    const std::uint32_t first = at;
    at += static_cast<std::uint32_t>(length_of(word[at]));
    piece = first > 0 ? settings_.prefix : "";
    piece += word.substr(first, at - first);
    if (at == last) piece += settings_.suffix;
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
    } else if (!settings_.lost_unknown.empty()) {
      fail("no token for '{}', and the unknown token '{}' is not in the vocabulary",
           io::shown(word.substr(first, at - first)), io::shown(settings_.lost_unknown));
    }
  }
  return list;
}

void Bpe::merge(std::vector<Cut>& tokens) const {
  std::vector<Link> links;
  links.reserve(tokens.size());
  const auto count = static_cast<std::uint32_t>(tokens.size());
  for (std::uint32_t i = 0; i < count; ++i)
    links.push_back({tokens[i].begin, tokens[i].end, tokens[i].id, i == 0 ? nowhere : i - 1,
                     i + 1 < count ? i + 1 : nowhere});
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto find = [&](std::uint32_t place) {
    return merges_.rank_of(links[place].id, links[links[place].after].id);
  };
  const auto note = [&](std::uint32_t place) {
    if (place == nowhere || links[place].after == nowhere) return;
    if (const auto rank = find(place)) queue.push({*rank, place});
  };
  for (std::uint32_t i = 0; i < count; ++i) note(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Link& left = links[best.place];
    if (left.id < 0 || left.after == nowhere) continue;
    // Either part may have grown since, so that this is now another merge or none.
    const int merged = merges_.merged(best.rank);
    const auto rank = find(best.place);
    if (!rank || merges_.merged(*rank) != merged) continue;
    Link& right = links[left.after];
    left.id = merged;
    left.end = right.end;
    right.id = -1;
    left.after = right.after;
    if (left.after != nowhere) links[left.after].before = best.place;
    note(left.before);
    note(best.place);
  }
  tokens.clear();
  for (const Link& link : links)
    if (link.id >= 0) tokens.push_back({link.id, link.begin, link.end});
}

} // namespace mha::tokenizers
