#include <mha/compare/weights.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace mha {

namespace {

/// Whether a tensor is a mask or a table that files hold besides weights.
bool is_buffer(std::string_view name) {
  for (const std::string_view ending :
       {"rotary_emb.inv_freq", "attn.masked_bias", "attention.masked_bias", "position_ids",
        "token_type_ids", "rope_freqs.weight", "rotary_sin", "rotary_cos", "attn.mask",
        "num_batches_tracked"})
    if (name.ends_with(ending)) return true;
  return false;
}

/// A weight that only one file has.
WeightDiff lone_weight(const Weight& weight, const WeightFile& file, bool of_a) {
  WeightDiff diff;
  (of_a ? diff.name : diff.other) = weight.name;
  (of_a ? diff.type_a : diff.type_b) = weight.type;
  (of_a ? diff.shape_a : diff.shape_b) = weight.shape;
  diff.status = of_a ? WeightStatus::only_a : WeightStatus::only_b;
  const bool is_mask =
      (weight.name.ends_with("attn.bias") || weight.name.ends_with("attention.bias")) &&
      weight.shape.size() == 4;
  if (is_mask || is_buffer(weight.name)) {
    diff.status = WeightStatus::buffer;
    return diff;
  }
  if (weight.shape.size() < 2 && !weight.name.ends_with("bias")) return diff;
  std::optional<Tensor> own;
  for (const Weight& other : file.weights) {
    if (&other == &weight || other.shape != weight.shape || other.type != weight.type) continue;
    if (weight.shape.size() == 1 && weight.shape[0] < 1024) continue; // many are alike
    if (!own) own = weight.read();
    if (!same_weights(*own, other.read())) continue;
    diff.status = WeightStatus::tied;
    diff.detail = fmt::format("is {} once more", other.name);
    break;
  }
  return diff;
}

bool are_near(float a, float b) {
  return std::fabs(a - b) <= std::max(std::fabs(a), std::fabs(b)) * 0x1p-7F;
}

/// Finds exchanged tensors: of unrelated pairs, those where B's tensor is another one of A's, such
/// as a gate and its factor, two layers, keys and values.
void note_exchanged(const WeightFile& a, const WeightFile& b, WeightsDiff& diff) {
  constexpr double unrelated = 0.8;
  std::map<std::string_view, const Weight*> of_a, of_b;
  for (const Weight& weight : a.weights) of_a.emplace(weight.name, &weight);
  for (const Weight& weight : b.weights) of_b.emplace(weight.name, &weight);
  std::vector<WeightDiff*> apart;
  for (WeightDiff& row : diff.tensors)
    if (row.status == WeightStatus::differs && row.relative > unrelated && row.shape_a.size() > 1)
      apart.push_back(&row);
  for (WeightDiff* const row : apart)
    for (const WeightDiff* const other : apart) {
      if (other == row || other->shape_a != row->shape_b ||
          !std::ranges::equal(other->first_a, row->first_b, are_near))
        continue;
      const WeightStatus status =
          diff_weight(*of_a.at(other->name), *of_b.at(row->other), {}).status;
      if (status != WeightStatus::equal && status != WeightStatus::close) continue;
      row->detail = fmt::format("is A's {}", other->name);
      break;
    }
}

} // namespace

std::string_view name_of(WeightStatus status) {
  constexpr std::array<std::string_view, 11> names{"equal",    "close",     "tied",     "buffer",
                                                   "permuted", "offset",    "scaled",   "differs",
                                                   "shape",    "only in A", "only in B"};
  return names[static_cast<std::size_t>(status)];
}

bool is_same(WeightStatus status) {
  return status <= WeightStatus::buffer;
}

bool WeightsDiff::same() const {
  return std::ranges::all_of(tensors, [](const WeightDiff& one) { return is_same(one.status); });
}

WeightsDiff diff_weights(const WeightFile& a, const WeightFile& b) {
  WeightsDiff diff{a.name, b.name, {}, a.by_role};
  std::vector<std::size_t> heads = a.heads;
  heads.insert(heads.end(), b.heads.begin(), b.heads.end());
  std::map<std::string_view, const Weight*> of_b;
  for (const Weight& weight : b.weights) of_b.emplace(weight.role, &weight);
  for (const Weight& weight : a.weights) {
    const auto at = of_b.find(weight.role);
    if (at == of_b.end()) {
      diff.tensors.push_back(lone_weight(weight, a, true));
      continue;
    }
    diff.tensors.push_back(diff_weight(weight, *at->second, heads));
    of_b.erase(at);
  }
  for (const Weight& weight : b.weights)
    if (const auto left = of_b.find(weight.role); left != of_b.end() && left->second == &weight)
      diff.tensors.push_back(lone_weight(weight, b, false));
  note_exchanged(a, b, diff);
  return diff;
}

} // namespace mha
