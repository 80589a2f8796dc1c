// Rotary position embedding with one part changed: the sine's sign, the pairs, the frequencies, the
// positions, or the precision of the angles.

#include <mha/diagnose/hypotheses/rope_turn.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/forward/rotary.hpp>
#include <mha/layer/graph.hpp>

#include <cmath>

namespace mha {

Turn turn_of(const Layer& layer) {
  Turn turn;
  turn.first = layer.settings.rope_first;
  turn.dims =
      layer.settings.rope_dims == 0 ? layer.dims.d_k - turn.first : layer.settings.rope_dims;
  turn.dims -= turn.dims % 2;
  turn.interleaved = turn.angles_interleaved = layer.settings.rope == Rope::interleaved;
  // The angles at position 1 are the frequencies, including any scaling.
  Layer one = layer;
  one.positions = Tensor(DType::f64, {std::size_t{1}});
  one.positions.as_mutable<double>()[0] = 1;
  const RotaryTable<double> table = rotary_table<double>(one, 1, 0);
  for (std::size_t i = 0; i < table.pairs; ++i)
    turn.frequencies.push_back(std::atan2(table.sines[i], table.cosines[i]));
  if (table.pairs > 0) turn.factor = std::hypot(table.sines[0], table.cosines[0]);
  const auto offset = static_cast<double>(layer.first_position());
  turn.position = [positions = layer.positions, offset](std::size_t, std::size_t t) {
    return positions.empty() ? offset + static_cast<double>(t) : positions.as<double>()[t];
  };
  return turn;
}

Tensor turned(const Layer& layer, const Tensor& x, const Turn& turn) {
  const std::size_t B = x.shape()[0], tokens = x.shape()[1], width = x.shape()[2],
                    d = layer.dims.d_k;
  // Two changes together may ask for more dimensions than a head has from `first` on.
  const std::size_t pairs =
      std::min(std::min(turn.dims, d - turn.first) / 2, turn.frequencies.size());
  Tensor result = copied(x);
  std::vector<double> cosines(pairs), sines(pairs);
  by_precision(x.dtype(), [&]<class T>(T) {
    const T* from = x.as<T>().data();
    T* to = result.as_mutable<T>().data();
    for (std::size_t b = 0; b < B; ++b)
      for (std::size_t t = 0; t < tokens; ++t, from += width, to += width) {
        for (std::size_t i = 0; i < pairs; ++i) {
          double angle = turn.position(b, t) * turn.frequencies[i];
          if (turn.round_angle) angle = turn.round_angle(angle);
          cosines[i] = turn.factor * std::cos(angle), sines[i] = turn.factor * std::sin(angle);
          if (turn.round_cosine)
            cosines[i] = turn.round_cosine(cosines[i]), sines[i] = turn.round_cosine(sines[i]);
        }
        for (std::size_t at = turn.first; at < width; at += d)
          for (std::size_t i = 0; i < pairs; ++i) {
            const std::size_t first = turn.interleaved ? 2 * i : i,
                              second = turn.interleaved ? 2 * i + 1
                                                        : i + (turn.apart > 0 ? turn.apart : pairs);
            const auto angle = [&](std::size_t n) {
              return turn.angles_interleaved ? n / 2 : n % pairs;
            };
            const double a = static_cast<double>(from[at + first]),
                         c = static_cast<double>(from[at + second]);
            const std::size_t n = angle(first), m = turn.apart > 0 ? i : angle(second);
            to[at + first] = static_cast<T>(a * cosines[n] + turn.first_sign * c * sines[n]);
            to[at + second] = static_cast<T>(c * cosines[m] + turn.second_sign * a * sines[m]);
          }
      }
  });
  return result;
}

namespace {

/// What is rotated: q or k, or their norm.
Tensor unturned(const Layer& layer, bool q) {
  return value_of(layer, inputs_of(layer, q ? Stage::q_rope : Stage::k_rope).front());
}

} // namespace

void turn_with(Layer& layer, const Turn& turn, bool q, bool k) {
  if (q) give(layer, Stage::q_rope, turned(layer, unturned(layer, true), turn));
  // Another layer's keys were turned there.
  if (k && has_step(layer, Stage::k))
    give(layer, Stage::k_rope, turned(layer, unturned(layer, false), turn));
}

namespace {

/// base^(−2i / width) for the first `pairs` pairs.
std::vector<double> frequencies_of(double base, double width, std::size_t pairs) {
  std::vector<double> list;
  for (std::size_t i = 0; i < pairs; ++i)
    list.push_back(std::pow(base, -2 * static_cast<double>(i) / width));
  return list;
}

double as_bfloat16(double a) {
  return static_cast<double>(from_bfloat16(to_bfloat16(static_cast<float>(a))));
}
double as_half(double a) {
  return static_cast<double>(from_half(to_half(static_cast<float>(a))));
}

class TurnChanges {
public:
  explicit TurnChanges(const Layer& layer) : layer_(layer), dims_(layer.dims.d_k) {
    if (layer.settings.rope_dims != 0) dims_ = layer.settings.rope_dims;
  }

  std::vector<Change> changes() {
    if (layer_.settings.rope == Rope::none || dims_ < 2) return {};
    add_signs(), add_pairs(), add_sides(), add_positions(), add_frequencies();
    list_.all_rare();
    add_precision();
    return list_.take();
  }

private:
  using Edit = std::function<void(Turn&, const Layer&)>;
  Change& add(const char* id, std::string did, std::string cure, const Edit& edit) {
    return list_.add(id, rotary_stages(), std::move(did), std::move(cure), [edit](Layer& layer) {
      Turn turn = turn_of(layer);
      edit(turn, layer);
      turn_with(layer, turn);
    });
  }

  void add_signs() {
    add("rope.sign", "rotates the other way, by −position · frequency",
        "negate the sine: (x₁ cos − x₂ sin, x₂ cos + x₁ sin)",
        [](Turn& turn, const Layer&) { turn.first_sign = 1, turn.second_sign = -1; });
    add("rope.sign", "adds the sine in both dimensions of a pair",
        "subtract the sine in the first dimension of each pair: rotate_half negates it",
        [](Turn& turn, const Layer&) { turn.first_sign = turn.second_sign = 1; });
    add("rope.sign", "subtracts the sine in both dimensions of a pair",
        "add the sine in the second dimension of each pair",
        [](Turn& turn, const Layer&) { turn.first_sign = turn.second_sign = -1; });
  }

  void add_pairs() {
    add("rope.pairs", "pairs the dimensions in one way and lays the angles out in the other",
        "let both dimensions of a pair turn by the same angle",
        [](Turn& turn, const Layer&) { turn.interleaved = !turn.interleaved; });
    add("rope.pairs", "lays the angles out in one way and pairs the dimensions in the other",
        "let both dimensions of a pair turn by the same angle",
        [](Turn& turn, const Layer&) { turn.angles_interleaved = !turn.angles_interleaved; });
    if (dims_ < layer_.dims.d_k)
      add("rope.dims", fmt::format("rotates the last {} dimensions of a head", dims_),
          fmt::format("rotate the first {} dimensions of each head", dims_),
          [](Turn& turn, const Layer& layer) { turn.first = layer.dims.d_k - turn.dims; });
    const std::size_t half = layer_.dims.d_k / 2;
    if (dims_ >= layer_.dims.d_k || half + dims_ / 2 > layer_.dims.d_k) return;
    const std::string did =
                          fmt::format("pairs dimension i with i + {}, across the whole head", half),
                      cure = fmt::format("pair dimension i with i + {}, within those that are "
                                         "rotated",
                                         dims_ / 2);
    add("rope.pairs", did, cure, [half](Turn& turn, const Layer&) {
      turn.interleaved = turn.angles_interleaved = false;
      turn.apart = half;
    });
    add("rope.pairs", did + ", with the frequencies of the whole head", cure,
        [half](Turn& turn, const Layer& layer) {
          turn.interleaved = turn.angles_interleaved = false;
          turn.apart = half;
          turn.frequencies = frequencies_of(layer.settings.rope_base,
                                            static_cast<double>(layer.dims.d_k), turn.dims / 2);
        });
  }

  /// Only q or only k is rotated.
  void add_sides() {
    for (const bool q : {true, false}) {
      if (!q && !has_step(layer_, Stage::k)) continue;
      const char* const without = q ? "q" : "k";
      list_.add(fmt::format("rope.missing.{}", without),
                StageSet{q ? Stage::q_rope : Stage::k_rope},
                fmt::format("rotates {} alone, not {}", q ? "k" : "q", without),
                fmt::format("rotate {} as well", without), [q](Layer& layer) {
                  give(layer, q ? Stage::q_rope : Stage::k_rope, unturned(layer, q));
                });
    }
  }

  void add_positions() {
    const Dims& d = layer_.dims;
    add("rope.twice", "rotates twice", "rotate q and k once", [](Turn& turn, const Layer&) {
      const auto position = turn.position;
      turn.position = [position](std::size_t b, std::size_t t) { return 2 * position(b, t); };
    });
    list_.add("rope.axis", rotary_stages(), "rotates by the number of the head, not of the token",
              "let positions run along the tokens: (T, H, d) and (H, T, d) need other axes",
              [](Layer& layer) { turn_by_head(layer); });
    if (d.B > 1)
      add("rope.axis", "rotates by the number of the batch item, not of the token",
          "let positions run along the tokens", [](Turn& turn, const Layer&) {
            turn.position = [](std::size_t b, std::size_t) { return static_cast<double>(b); };
          });
    if (!layer_.positions.empty())
      add("rope.positions", "counts positions 0, 1, 2 …, not those of `positions`",
          "rotate each token by its own position", [](Turn& turn, const Layer&) {
            turn.position = [](std::size_t, std::size_t t) { return static_cast<double>(t); };
          });
    if (d.T > 1)
      add("rope.positions", "counts positions from the last token backwards",
          "let positions grow with the tokens", [](Turn& turn, const Layer& layer) {
            const auto last = static_cast<double>(layer.dims.T - 1);
            turn.position = [last](std::size_t, std::size_t t) {
              return last - static_cast<double>(t);
            };
          });
    const auto past = static_cast<std::int64_t>(d.past),
               later = static_cast<std::int64_t>(d.S) - static_cast<std::int64_t>(d.T);
    for (const RopeSide side : {RopeSide::q, RopeSide::k})
      for (const std::int64_t by : {past, -past, later, -later})
        if (by != 0) {
          list_.add(rope_offset_change(layer_, side, by)).reproduction = {};
        }
  }

  static void turn_by_head(Layer& layer) {
    // Treats the heads of a token as a sequence of tokens.
    for (const bool q : {true, false}) {
      if (!q && !has_step(layer, Stage::k)) continue;
      const std::size_t d = layer.dims.d_k, heads = q ? layer.dims.H : layer.dims.H_kv;
      const Tensor x = unturned(layer, q);
      const Shape shape = x.shape();
      Turn turn = turn_of(layer);
      turn.position = [](std::size_t, std::size_t h) { return static_cast<double>(h); };
      give(layer, q ? Stage::q_rope : Stage::k_rope,
           turned(layer, x.reshaped({shape[0] * shape[1], heads, d}), turn).reshaped(shape));
    }
  }

  void add_frequencies() {
    const double base = layer_.settings.rope_base;
    const std::size_t d_k = layer_.dims.d_k, pairs = dims_ / 2;
    if (dims_ < d_k)
      add("rope.frequencies",
          fmt::format("uses the frequencies of all {} dimensions for the {} that are rotated", d_k,
                      dims_),
          fmt::format("compute the frequencies from the rotated width: base^(−2i/{})", dims_),
          [base, d_k, pairs](Turn& turn, const Layer&) {
            turn.frequencies = frequencies_of(base, static_cast<double>(d_k), pairs);
          });
    for (std::size_t dims : {d_k / 4 * 2, d_k / 8 * 2, d_k * 2 / 10 * 2})
      if (dims >= 2 && dims != dims_ && dims < d_k)
        add("rope.frequencies",
            fmt::format("rotates {0} of the {1} dimensions, with the frequencies of all {1}", dims,
                        d_k),
            fmt::format("rotate the first {} dimensions of each head", dims_),
            [base, d_k, dims](Turn& turn, const Layer&) {
              turn.dims = dims;
              turn.frequencies = frequencies_of(base, static_cast<double>(d_k), dims / 2);
            });
    add("rope.frequencies", "uses base^(−i/d) for the frequencies", "use base^(−2i/d) for pair i",
        [base, pairs](Turn& turn, const Layer&) {
          turn.frequencies = frequencies_of(base, 2 * static_cast<double>(2 * pairs), pairs);
        });
    add("rope.frequencies", "uses base^(−4i/d) for the frequencies", "use base^(−2i/d) for pair i",
        [base, pairs](Turn& turn, const Layer&) {
          turn.frequencies = frequencies_of(base, static_cast<double>(pairs), pairs);
        });
  }

  void add_precision() {
    struct Type {
      const char* name;
      double (*round)(double);
    };
    for (const Type& type : {Type{"bfloat16", as_bfloat16}, Type{"float16", as_half}}) {
      const std::string cure =
          fmt::format("compute positions, frequencies and angles in float32, not in {}", type.name);
      const auto rare = [](Change& change) { change.rare = true; };
      rare(add("rope.rounded", fmt::format("rounds the rotary angles to {}", type.name), cure,
               [round = type.round](Turn& turn, const Layer&) { turn.round_angle = round; }));
      rare(add("rope.rounded",
               fmt::format("computes the rotary angles in {}: frequencies, positions and products "
                           "are rounded",
                           type.name),
               cure, [round = type.round](Turn& turn, const Layer&) {
                 for (double& frequency : turn.frequencies) frequency = round(frequency);
                 const auto position = turn.position;
                 turn.position = [position, round](std::size_t b, std::size_t t) {
                   return round(position(b, t));
                 };
                 turn.round_angle = round;
               }));
      rare(add("rope.rounded", fmt::format("rounds the rotary frequencies to {}", type.name), cure,
               [round = type.round](Turn& turn, const Layer&) {
                 for (double& frequency : turn.frequencies) frequency = round(frequency);
               }));
      rare(add("rope.rounded", fmt::format("rounds cosines and sines to {}", type.name), cure,
               [round = type.round](Turn& turn, const Layer&) { turn.round_cosine = round; }));
      rare(add("rope.rounded", fmt::format("computes angles, cosines and sines in {}", type.name),
               cure, [round = type.round](Turn& turn, const Layer&) {
                 for (double& frequency : turn.frequencies) frequency = round(frequency);
                 turn.round_angle = turn.round_cosine = round;
               }));
    }
  }

  const Layer& layer_;
  std::size_t dims_;
  ChangeList list_;
};

} // namespace

const Theme rope_turn_theme{
    "rope_turn",
    "rope.sign rope.pairs rope.missing.q rope.missing.k rope.twice rope.axis rope.positions "
    "rope.frequencies rope.rounded",
    [](const Subject& subject) { return TurnChanges(subject.layer).changes(); }};

} // namespace mha
