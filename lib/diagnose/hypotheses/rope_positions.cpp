// Wrong positions in the rotation: with or without padding, offset, or wrong in a decoder with a
// cache.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/rope_turn.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace mha {

namespace {

/// The padding of each batch item: tokens that no query may attend to. Empty if there is none.
std::vector<std::vector<bool>> padding_of(const Layer& layer) {
  const Dims& d = layer.dims;
  if (d.past > 0) return {};
  std::vector<std::vector<bool>> padding(d.B, std::vector<bool>(d.S, false));
  bool any = false;
  for (const Broadcast& mask : layer.blocked) {
    if (mask.strides[1] != 0 || mask.strides[2] != 0 || mask.strides[3] == 0) continue;
    for (std::size_t b = 0; b < d.B; ++b)
      for (std::size_t j = mask.first_key; j < std::min(mask.first_key + mask.keys, d.S); ++j)
        if (mask.row<std::uint8_t>(b, 0, 0)[(j - mask.first_key) * mask.strides[3]] != 0)
          padding[b][j] = true, any = true;
  }
  return any ? padding : std::vector<std::vector<bool>>{};
}

/// A function of the layer's own positions that gives those by which q and k are rotated.
using Position = std::function<double(std::size_t b, std::size_t t)>;
void add_rotations(const char* did, const char* cure, std::function<Position(Position)> other,
                   ChangeList& list) {
  list.add("rope.padding", rotary_stages(), did, cure, [other = std::move(other)](Layer& layer) {
    Turn turn = turn_of(layer);
    turn.position = other(turn.position);
    turn_with(layer, turn);
  });
}

/// Padding hidden by a mask, at any place.
void add_hidden(const Layer& layer, ChangeList& list) {
  const std::vector<std::vector<bool>> padding = padding_of(layer);
  if (padding.empty() || layer.dims.T != layer.dims.S) return;
  // Padding itself has position 1, or that of the token before it.
  for (const bool one : {true, false})
    add_rotations(
        "does not count padding: positions are those among the tokens",
        "also count positions over the padding, as this layer does",
        [padding, one](const Position& own) {
          return [=](std::size_t b, std::size_t t) {
            const auto end = padding[b].begin() + static_cast<std::ptrdiff_t>(t);
            const auto count = static_cast<double>(std::count(padding[b].begin(), end, false));
            const double of_padding = one ? 1 : std::max(count - 1, 0.0);
            return own(b, 0) + (padding[b][t] ? of_padding : count);
          };
        },
        list);
}

/// Left-padded texts of a batch whose positions count the padding.
void add_before_texts(const Layer& layer, ChangeList& list) {
  const std::vector<std::size_t>& lengths = layer.lengths;
  const std::size_t T = layer.dims.T;
  if (std::ranges::all_of(lengths, [T](std::size_t n) { return n == T; })) return;
  constexpr int rows_more_at_most = 4; // more than the longest text has
  for (int more = 0; more <= rows_more_at_most; ++more)
    add_rotations(
        "counts positions through the padding before each text",
        "count them from each text's first token; no weight and no output depends on it",
        [lengths, T, more](const Position& own) {
          return [=](std::size_t b, std::size_t t) {
            return own(b, t) + static_cast<double>(T - lengths[b]) + more;
          };
        },
        list);
}

std::vector<Change> rope_padding_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const std::size_t dims =
      layer.settings.rope_dims != 0 ? layer.settings.rope_dims : layer.dims.d_k;
  if (layer.settings.rope == Rope::none || dims < 2) return {};
  ChangeList list;
  add_hidden(layer, list);
  add_before_texts(layer, list);
  list.all_rare();
  return list.take();
}

} // namespace

const Theme rope_padding_theme{"rope_padding", "rope.padding", rope_padding_changes};

Change rope_offset_change(const Layer& layer, RopeSide side, std::int64_t by) {
  const bool q = side != RopeSide::k, k = side != RopeSide::q;
  StageSet touched;
  if (q) touched.add(Stage::q_rope);
  if (k) touched.add(Stage::k_rope);
  const std::string did = fmt::format("rotates {} by positions that are {} too {}",
                                      q && k ? "q and k"
                                      : q    ? "q alone"
                                             : "k alone",
                                      std::abs(by), by > 0 ? "high" : "low");
  std::string cure = "rotate q and k by the positions of their tokens, counted from the same place";
  if (q && k) cure += "; as long as both are off alike, no weight and no output depends on it";
  Change change{"rope.offset", touched, did, cure, [q, k, by](Layer& edited) {
                  Turn turn = turn_of(edited);
                  const auto position = turn.position;
                  turn.position = [position, by](std::size_t b, std::size_t t) {
                    return position(b, t) + static_cast<double>(by);
                  };
                  turn_with(edited, turn, q, k);
                }};
  if (q && k && layer.positions.empty())
    change.reproduction.add(SettingEdit("rope_offset", layer.first_position() + by));
  return change;
}

Change rope_decoded_change(const Layer& layer, Decoded how, std::size_t first) {
  const bool last = first + 1 == layer.dims.T;
  const std::string tokens =
      last ? fmt::format("token {}", first) : fmt::format("tokens from {} on", first);
  Change change;
  change.id = "rope.positions", change.touches = rotary_stages();
  change.did = [&] {
    switch (how) {
    case Decoded::high:
      return fmt::format("rotates {} by a position that is one too high", tokens);
    case Decoded::low:
      return fmt::format("rotates {} by a position that is one too low", tokens);
    case Decoded::zero:
      return fmt::format("gives {} position 0", tokens);
    case Decoded::restart:
      return fmt::format("counts the positions of {} from 0 again", tokens);
    default:
      return fmt::format("gives {} the position of token {}", tokens, first - 1);
    }
  }();
  change.cure = "rotate what is decoded with a cache by the number of tokens before it";
  change.edit = [how, first](Layer& edited) {
    Turn turn = turn_of(edited);
    turn.position = [how, first, own = turn.position](std::size_t b, std::size_t t) {
      const double position = own(b, t);
      if (t < first) return position;
      switch (how) {
      case Decoded::high:
        return position + 1;
      case Decoded::low:
        return position - 1;
      case Decoded::zero:
        return 0.0;
      case Decoded::restart:
        return position - own(b, first);
      default:
        return own(b, first - 1);
      }
    };
    turn_with(edited, turn);
  };
  return change;
}

} // namespace mha
