#include <mha/tokenizers/vocabulary.hpp>

#include <mha/system/unaligned.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace mha::tokenizers {

namespace {

/// Some bytes as a number of 64 bits.
template <class Word> std::uint64_t word_at(const char* bytes) {
  return unaligned<Word>(bytes);
}

// A short piece is its own key: its bytes, and its length above them. The key of a longer one is a
// hash with the highest bit set.
constexpr std::size_t short_piece = 7; // bytes
constexpr int length_shift = 8 * int{short_piece};
constexpr std::uint64_t hash_bit = 1ull << 63;
constexpr std::uint64_t first_multiplier = 0x9e3779b97f4a7c15,
                        second_multiplier = 0xd6e8feb86659fd93; // odd, as hashes multiply by
constexpr std::size_t length_bytes = sizeof(std::uint32_t);     // before a piece's bytes
constexpr std::size_t fewest_piece_slots = 1024;

/// One to seven bytes as a number: those of different texts of the same length differ.
std::uint64_t packed_bytes(std::string_view text) {
  const char* last = text.data() + text.size();
  if (text.size() >= 4)
    return word_at<std::uint32_t>(text.data()) |
           word_at<std::uint32_t>(last - 4) >> 8 * (8 - text.size()) << 32;
  return word_at<unsigned char>(text.data()) |
         word_at<unsigned char>(text.data() + text.size() / 2) << 8 |
         word_at<unsigned char>(last - 1) << 16;
}

std::uint64_t key_of(std::string_view text) {
  if (text.empty()) return 0;
  if (text.size() <= short_piece)
    return packed_bytes(text) | static_cast<std::uint64_t>(text.size()) << length_shift;
  std::uint64_t hash = text.size() * first_multiplier;
  const auto mix = [&](const char* at) {
    hash = (hash ^ word_at<std::uint64_t>(at)) * second_multiplier;
    hash ^= hash >> 32;
  };
  const char *at = text.data(), *last = at + text.size() - sizeof hash;
  for (; at < last; at += sizeof hash) mix(at);
  mix(last); // overlaps the previous word if the length is not a multiple of 8
  return hash | hash_bit;
}

/// A hash of a key, whose low bits are the slot where the search for it begins.
std::size_t slot_hash(std::uint64_t key) {
  key *= first_multiplier;
  return static_cast<std::size_t>((key ^ key >> 32) * second_multiplier >> 32);
}

} // namespace

bool Vocabulary::holds(std::string_view piece, std::uint32_t begin) const {
  const char* bytes = bytes_.data() + begin;
  return word_at<std::uint32_t>(bytes - length_bytes) == piece.size() &&
         std::memcmp(bytes, piece.data(), piece.size()) == 0;
}

std::size_t Vocabulary::slot_of(std::string_view piece, std::uint64_t key) const {
  const std::size_t slot_mask = slots_.size() - 1;
  for (std::size_t at = slot_hash(key) & slot_mask;; at = (at + 1) & slot_mask) {
    const VocabularySlot& slot = slots_[at];
    if (slot.begin == 0) return at;
    if (slot.key == key && ((key & hash_bit) == 0 || holds(piece, slot.begin))) return at;
  }
}

void Vocabulary::reserve(std::size_t count, std::size_t bytes) {
  bytes_.reserve(bytes), entries_.reserve(count);
  set_slots(std::bit_ceil(std::max(fewest_piece_slots, count * 3 / 2 + 1)));
}

void Vocabulary::set_slots(std::size_t count) {
  if (count <= slots_.size()) return;
  std::vector<VocabularySlot> old(count);
  old.swap(slots_);
  const std::size_t slot_mask = slots_.size() - 1;
  for (const VocabularySlot& slot : old) {
    if (slot.begin == 0) continue;
    std::size_t at = slot_hash(slot.key) & slot_mask;
    while (slots_[at].begin != 0) at = (at + 1) & slot_mask;
    slots_[at] = slot;
  }
}

bool Vocabulary::add(std::string_view piece, int id) {
  if ((entries_.size() + 1) * 3 > slots_.size() * 2)
    set_slots(std::max(fewest_piece_slots, slots_.size() * 2));
  const std::uint64_t key = key_of(piece);
  VocabularySlot& slot = slots_[slot_of(piece, key)];
  if (slot.begin != 0) return false;
  const auto length = static_cast<std::uint32_t>(piece.size());
  bytes_.append(reinterpret_cast<const char*>(&length), length_bytes);
  slot = {key, static_cast<std::uint32_t>(bytes_.size()), id};
  entries_.push_back({id, slot.begin, length});
  bytes_ += piece;
  return true;
}

std::optional<int> Vocabulary::finish() {
  if (!std::ranges::is_sorted(entries_, {}, &VocabularyEntry::id))
    std::ranges::sort(entries_, {}, &VocabularyEntry::id);
  const auto twice = std::ranges::adjacent_find(entries_, {}, &VocabularyEntry::id);
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
  const std::size_t slot_mask = slots_.size() - 1;
  for (std::size_t first = 0; first < pieces.size(); first += at_once) {
    const std::size_t count = std::min(at_once, pieces.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = key_of(pieces[first + i]);
      __builtin_prefetch(&slots_[slot_hash(keys[i]) & slot_mask]);
    }
    for (std::size_t i = 0; i < count && count > 1; ++i)
      if ((keys[i] & hash_bit) != 0)
        __builtin_prefetch(bytes_.data() + slots_[slot_hash(keys[i]) & slot_mask].begin);
    for (std::size_t i = 0; i < count; ++i) {
      const VocabularySlot& slot = slots_[slot_of(pieces[first + i], keys[i])];
      ids[first + i] = slot.begin == 0 ? -1 : slot.id;
    }
  }
}

std::optional<std::string_view> Vocabulary::piece_of(int id) const {
  const auto last = entries_.size();
  const auto place = static_cast<std::size_t>(std::max(id, 0));
  // Most vocabularies have every id from 0 on, so that a piece's entry is at its id.
  if (place < last && entries_[place].id == id) return text_of(entries_[place]);
  const auto found = std::ranges::lower_bound(entries_, id, {}, &VocabularyEntry::id);
  if (found == entries_.end() || found->id != id) return std::nullopt;
  return text_of(*found);
}

} // namespace mha::tokenizers
