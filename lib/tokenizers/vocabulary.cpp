#include <mha/tokenizers/vocabulary.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace mha::tokenizers {

namespace {

template <class Word> std::uint64_t word_at(const char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

constexpr std::uint64_t odd = 0x9e3779b97f4a7c15, other_odd = 0xd6e8feb86659fd93;
constexpr std::size_t length_bytes = sizeof(std::uint32_t); // before a piece's bytes
constexpr std::size_t longest_short = 7;                    // bytes that a key holds
constexpr std::uint64_t is_hash = 1ull << 63;               // of keys that hold no text
constexpr std::size_t fewest_piece_slots = 1024;
constexpr int length_at = 8 * int{longest_short}; // bits

/// One to seven bytes as a number: those of different texts of the same length differ.
std::uint64_t few_bytes(std::string_view text) {
  const char* last = text.data() + text.size();
  if (text.size() >= 4)
    return word_at<std::uint32_t>(text.data()) |
           word_at<std::uint32_t>(last - 4) >> 8 * (8 - text.size()) << 32;
  return word_at<unsigned char>(text.data()) |
         word_at<unsigned char>(text.data() + text.size() / 2) << 8 |
         word_at<unsigned char>(last - 1) << 16;
}

/// A short piece with its length; a hash of a longer one.
std::uint64_t key_of(std::string_view text) {
  if (text.empty()) return 0;
  if (text.size() <= longest_short)
    return few_bytes(text) | static_cast<std::uint64_t>(text.size()) << length_at;
  std::uint64_t hash = text.size() * odd;
  const auto mix = [&](const char* at) {
    hash = (hash ^ word_at<std::uint64_t>(at)) * other_odd;
    hash ^= hash >> 32;
  };
  const char *at = text.data(), *last = at + text.size() - sizeof hash;
  for (; at < last; at += sizeof hash) mix(at);
  mix(last); // may overlap
  return hash | is_hash;
}

std::size_t spread(std::uint64_t key) {
  key *= odd;
  return static_cast<std::size_t>((key ^ key >> 32) * other_odd >> 32);
}

} // namespace

bool Vocabulary::is_at(std::string_view piece, std::uint32_t begin) const {
  const char* there = bytes_.data() + begin;
  return word_at<std::uint32_t>(there - length_bytes) == piece.size() &&
         std::memcmp(there, piece.data(), piece.size()) == 0;
}

std::size_t Vocabulary::slot_of(std::string_view piece, std::uint64_t key) const {
  const std::size_t last = slots_.size() - 1;
  for (std::size_t at = spread(key) & last;; at = (at + 1) & last) {
    const Slot& slot = slots_[at];
    if (slot.begin == 0) return at;
    if (slot.key == key && ((key & is_hash) == 0 || is_at(piece, slot.begin))) return at;
  }
}

void Vocabulary::reserve(std::size_t count, std::size_t bytes) {
  bytes_.reserve(bytes), entries_.reserve(count);
  set_slots(std::bit_ceil(std::max(fewest_piece_slots, count * 3 / 2 + 1)));
}

void Vocabulary::set_slots(std::size_t count) {
  if (count <= slots_.size()) return;
  std::vector<Slot> old(count);
  old.swap(slots_);
  const std::size_t last = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.begin == 0) continue;
    std::size_t at = spread(slot.key) & last;
    while (slots_[at].begin != 0) at = (at + 1) & last;
    slots_[at] = slot;
  }
}

bool Vocabulary::add(std::string_view piece, int id) {
  if ((entries_.size() + 1) * 3 > slots_.size() * 2)
    set_slots(std::max(fewest_piece_slots, slots_.size() * 2));
  const std::uint64_t key = key_of(piece);
  Slot& slot = slots_[slot_of(piece, key)];
  if (slot.begin != 0) return false;
  const auto length = static_cast<std::uint32_t>(piece.size());
  bytes_.append(reinterpret_cast<const char*>(&length), length_bytes);
  slot = {key, static_cast<std::uint32_t>(bytes_.size()), id};
  entries_.push_back({id, slot.begin, length});
  bytes_ += piece;
  return true;
}

std::optional<int> Vocabulary::finish() {
  if (!std::ranges::is_sorted(entries_, {}, &Entry::id))
    std::ranges::sort(entries_, {}, &Entry::id);
  const auto twice = std::ranges::adjacent_find(entries_, {}, &Entry::id);
  return twice == entries_.end() ? std::nullopt : std::optional(twice->id);
}

std::optional<int> Vocabulary::id_of(std::string_view piece) const {
  int id = -1;
  ids_of({&piece, 1}, {&id, 1});
  return id < 0 ? std::nullopt : std::optional(id);
}

void Vocabulary::ids_of(std::span<const std::string_view> pieces, std::span<int> ids) const {
  constexpr std::size_t at_once = 64;
  if (slots_.empty()) {
    std::ranges::fill(ids, -1);
    return;
  }
  std::array<std::uint64_t, at_once> keys;
  const std::size_t last = slots_.size() - 1;
  for (std::size_t first = 0; first < pieces.size(); first += at_once) {
    const std::size_t count = std::min(at_once, pieces.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = key_of(pieces[first + i]);
      __builtin_prefetch(&slots_[spread(keys[i]) & last]);
    }
    for (std::size_t i = 0; i < count && count > 1; ++i)
      if ((keys[i] & is_hash) != 0)
        __builtin_prefetch(bytes_.data() + slots_[spread(keys[i]) & last].begin);
    for (std::size_t i = 0; i < count; ++i) {
      const Slot& slot = slots_[slot_of(pieces[first + i], keys[i])];
      ids[first + i] = slot.begin == 0 ? -1 : slot.id;
    }
  }
}

std::optional<std::string_view> Vocabulary::piece_of(int id) const {
  const auto last = entries_.size();
  const auto place = static_cast<std::size_t>(std::max(id, 0));
  // Most vocabularies count without a gap.
  if (place < last && entries_[place].id == id) return text_of(entries_[place]);
  const auto found = std::ranges::lower_bound(entries_, id, {}, &Entry::id);
  if (found == entries_.end() || found->id != id) return std::nullopt;
  return text_of(*found);
}

} // namespace mha::tokenizers
