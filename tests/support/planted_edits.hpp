#pragma once
// The mistakes themselves: weights read otherwise, steps computed otherwise.

#include "support/planted.hpp"

namespace planted {

// Layers that mistakes are about.
bool always(reference::Layer& layer, Random& random);
/// With a relative bias, and keys of its own.
bool relative(reference::Layer& layer, Random& random);
/// With a bias for each query and key, and keys of its own.
bool explicit_bias(reference::Layer& layer, Random& random);

/// The memory of (in, out) as (out, in), turned.
void read_turned(reference::Array& W);
/// The columns of q, k and v side by side, taken apart in another order: "QVK" …, or "groups".
void take_apart(reference::Layer& layer, const std::string& order);
/// Head h gets columns h, h + heads, …
void interleave(reference::Array& W, reference::Array& bias, std::size_t heads);
/// Each batch item's memory read with tokens as columns.
void read_columns(reference::Array& X);
reference::Array repeated(const reference::Array& weight, std::size_t heads);

/// Key/value heads 0, 1, 0, 1, …: one for each query head. What is shown keeps its H_kv heads.
void tile(Implementation& other);
void normalise_after_rope(Implementation& other);
/// The same, saved where the layer's steps are: q_norm is what enters the rotation.
void normalise_after_rope_by_place(Implementation& other);
void cap_before_scale(Implementation& other);
void cap_after_mask(Implementation& other);
/// Hides what `hides` chooses, too; the query's place among the keys, as causal masks see it.
void block(reference::Layer& layer, const std::function<bool(double query, double key)>& hides);
/// Every tensor and every step rounded to float16, or bfloat16.
void round_all(Implementation& other, bool half);

// Values of a step.
reference::Array softmax_over_queries(const Implementation& self, const Stages& before);
reference::Array mean_over_heads(const Implementation& self, const Stages& before);
reference::Array with_dropout(const Implementation& self, const Stages& before);
reference::Array unmerged(const Implementation& self, const Stages& before);
/// Stages that another softmax has no rows for.
void drop_rows(const Implementation& self, Stages& stages);

/// A softmax over some of a query's keys: its result, its log-sum-exp, its greatest score.
struct PartOfKeys {
  std::vector<double> out;
  double lse, max;
};
/// The keys of a query in parts of `size`, without those that are hidden entirely.
std::vector<PartOfKeys> parts_of_keys(const Stages& s, std::size_t size, std::size_t b,
                                      std::size_t h, std::size_t t);

} // namespace planted
