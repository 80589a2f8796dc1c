#include <mha/load/assemble.hpp>

#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/assemble_steps.hpp>
#include <mha/load/masks.hpp>
#include <mha/load/narrowing.hpp>
#include <mha/load/sizes.hpp>
#include <mha/naming/forms.hpp>
#include <mha/naming/fused.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// The stage that a part gives: a stage's own name, or Q, K, V for the packed forms.
std::optional<Stage> given_by(const std::string& name) {
  if (name == "Q") return Stage::q;
  if (name == "K") return Stage::k;
  if (name == "V") return Stage::v;
  if (find_tensor_name(name)) return std::nullopt;
  return find_stage(name);
}

class Assembler {
public:
  Assembler(NamedTensors parts, Settings settings, std::optional<DType> dtype,
            std::vector<Note>& notes)
      : parts_(std::move(parts)), notes_(notes) {
    layer_.settings = std::move(settings);
    layer_.dtype = compute_dtype(parts_, dtype);
    for (const auto& [name, part] : parts_) {
      if (part.tensor.shape() == Shape{0})
        fail("{} is an empty list: numbers expected", part.source);
      numbers_ += part.tensor.count();
    }
  }

  Layer assemble(Labels labels) {
    require_settings_within(layer_.settings, layer_.dtype);
    turn_columns();
    choose_given();
    add_head_axis();
    const HeadCounts heads = find_heads(parts_, given_, layer_.settings, notes_);
    unfuse(heads);
    split_latent_weights(parts_, layer_.settings, heads.H);
    layer_.dims = find_sizes(parts_, given_, layer_.settings, heads, notes_);
    require_plausible(layer_.dims);
    const std::string head_source = first_of({"W_q", "q", "Q", "W_k", "k", "K", "X"});
    const std::string output_source = first_of({"W_o", "output", "W_v", "v", "V"});
    take_tensors();
    take_masks(parts_, layer_, notes_);
    const NamedTensor* result = find("head_result");
    const bool is_patch = result && result->bound;
    take_given();
    take_labels(std::move(labels), layer_, notes_);
    if (!parts_.empty()) fail("{} is not a tensor of a layer", parts_.begin()->second.source);
    check_settings(layer_, head_source, output_source, notes_);
    if (is_patch) patch_given_head_result(layer_);
    return std::move(layer_);
  }

private:
  const NamedTensor* find(const char* name) const {
    const auto part = parts_.find(name);
    return part == parts_.end() ? nullptr : &part->second;
  }

  /// Arrays without numbers may claim any length, and num_heads may be any number. Neither may cost
  /// time or memory out of proportion to the numbers that the tensors have.
  void require_plausible(const Dims& d) const {
    constexpr std::size_t harmless = 1 << 16;
    for (const auto& [count, what] :
         {std::pair{d.B, "batch items"}, {d.T, "queries"}, {d.S_all, "keys"}, {d.H, "heads"}})
      if (count > harmless + numbers_)
        fail("{}, but all tensors together have {}", counted(count, what),
             counted(numbers_, "numbers"));
  }

  /// Where the first of these tensors comes from, for messages.
  std::string first_of(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const NamedTensor* part = find(name)) return part->source;
    return "the layer";
  }

  void turn_columns() {
    if (!layer_.settings.columns) return;
    for (auto& [name, part] : parts_)
      if (!part.rows && turns_in_columns(name, part.tensor))
        part.tensor = transposed(part.tensor), part.source += ", transposed for columns,";
  }

  /// Chooses the results that the computation starts from. One that was bound always does; one that
  /// was merely found does only where what it is computed from is missing.
  void choose_given() {
    // Only for can_compute, which asks which tensors exist, not how large they are: sizes are found
    // later, from what is chosen here.
    Layer unsized;
    unsized.settings = layer_.settings;
    for (const TensorInfo& info : layer_tensors())
      if (const auto part = parts_.find(std::string(info.name)); part != parts_.end())
        info.of(unsized) = part->second.tensor;
    if (const NamedTensor* both = find("X_kv")) unsized.X_k = unsized.X_v = both->tensor;
    if (const NamedTensor* both = find("W_kv_a")) unsized.W_c_kv = both->tensor;
    if (find("bias")) unsized.bias.emplace_back();
    const bool fused = find("W_qkv") != nullptr;
    // An absent weight is the identity, but a result in the file is a better guess.
    const auto projected = [&](Stage stage) {
      switch (stage) {
      case Stage::q:
        return fused || find("W_q");
      case Stage::k:
        return fused || find("W_k") || find("W_kv_b");
      case Stage::v:
        return fused || find("W_v") || find("W_kv_b");
      case Stage::output:
        return find("W_o") != nullptr;
      case Stage::k_norm: // after which k is not made
      case Stage::k_rope:
        return fused || find("W_k") || find("W_kv_b") || find("k") || find("K");
      case Stage::v_norm:
        return fused || find("W_v") || find("W_kv_b") || find("v") || find("V");
      default:
        return true;
      }
    };

    std::map<Stage, std::string> candidates;
    for (const auto& [name, part] : parts_)
      if (const std::optional<Stage> stage = given_by(name)) {
        if (candidates.count(*stage))
          fail("{} and {} both give {}", parts_.at(candidates[*stage]).source, part.source,
               name_of(*stage));
        candidates[*stage] = name;
      }
    StageSet available;
    std::string skipped, source;
    for (const StageInfo& info : stages()) {
      const Stage stage = info.stage;
      const auto candidate = candidates.find(stage);
      const bool computable = can_compute(unsized, stage, available);
      if (candidate != candidates.end()) {
        if (parts_.at(candidate->second).bound || !computable || !projected(stage)) {
          unsized.given_set.add(stage);
          given_[stage] = candidate->second;
        } else {
          skipped += fmt::format("{}{}", skipped.empty() ? "" : ", ", candidate->second);
          source = parts_.at(candidate->second).source;
          parts_.erase(candidate->second);
        }
      }
      if (computable || unsized.has_given(stage)) available.add(stage);
    }
    if (!skipped.empty())
      notes_.emplace_back(message(
          "{} in the files: results, computed again from the layer; to start from one, bind "
          "it: <NAME=FILE>",
          skipped));
  }

  /// Given stages without an axis of heads are one head, unless num_heads is larger.
  void add_head_axis() {
    const bool projected = std::ranges::any_of(parts_, [](const auto& part) {
      return part.first.starts_with("X") || (part.first.starts_with("W_") && part.first != "W_o") ||
             part.first == "x";
    });
    if (projected || layer_.settings.num_heads > 1) return;
    std::vector<std::string> names;
    for (const auto& [stage, name] : given_) {
      const std::vector<Dim>& letters = info_of(stage).letters;
      if (is_packed(name) || (letters[0] != Dim::H && letters[0] != Dim::H_kv)) continue;
      if (parts_.at(name).tensor.rank() + 1 != letters.size()) return;
      names.push_back(name);
    }
    if (names.empty()) return;
    for (const std::string& name : names) {
      Tensor& tensor = parts_.at(name).tensor;
      Shape shape = tensor.shape();
      shape.insert(shape.begin(), 1);
      tensor = tensor.reshaped(std::move(shape));
    }
    notes_.emplace_back(fmt::format("{} {} taken as one head: no axis of heads",
                                    fmt::join(names, ", "), names.size() == 1 ? "is" : "are"));
  }

  /// W_qkv and b_qkv become W_q … b_v.
  void unfuse(HeadCounts heads) {
    const auto order = layer_.settings.origins.find("qkv_order");
    if (order != layer_.settings.origins.end() && is_given(order->second) &&
        !parts_.contains("W_qkv") && !parts_.contains("b_qkv"))
      notes_.push_back(warning(message("<qkv_order> changes nothing: there is no W_qkv")));
    for (const char* letter : {"W_", "b_"}) {
      const auto fused = parts_.find(std::string(letter) + "qkv");
      if (fused == parts_.end()) continue;
      const NamedTensor part = fused->second;
      const bool bias = *letter == 'b';
      if (part.tensor.rank() != (bias ? 1u : 2u))
        fail("{} is {}: expected {}", part.source, to_string(part.tensor.shape()),
             bias ? "one axis, all widths" : "(d_in, all widths)");
      const SplitTensors split = split_fused(part.tensor, layer_.settings.qkv_order, heads.H,
                                             heads.H_kv > 0 ? heads.H_kv : heads.H, part.source);
      for (const auto& [name, tensor] :
           {std::pair("q", &split.q), {"k", &split.k}, {"v", &split.v}}) {
        const auto [at, added] = parts_.emplace(std::string(letter) + name, part);
        if (!added)
          fail("{} and {} are both given; leave one of them out", part.source, at->second.source);
        at->second.tensor = *tensor;
        at->second.source = fmt::format("{}, its columns of {},", part.origin(), name);
        at->second.from = part.origin();
      }
      parts_.erase(std::string(letter) + "qkv");
    }
  }

  /// Moves a part into the layer, in the form and precision that the layer keeps.
  void take(const TensorInfo& info) {
    const auto part = parts_.find(std::string(info.name));
    if (part == parts_.end()) return;
    const DType dtype = info.in_layer.in_double ? DType::f64 : layer_.dtype;
    const Tensor tensor = narrowed(part->second.tensor, dtype, part->second.source, false, notes_);
    info.of(layer_) = stored(info, tensor, layer_.dims, part->second.source);
    parts_.erase(part);
  }

  /// Moves all parts that the layer keeps; X_kv becomes X_k and X_v.
  void take_tensors() {
    if (const auto both = parts_.find("X_kv"); both != parts_.end()) {
      Tensor& tensor = both->second.tensor; // one memory for both
      tensor = narrowed(tensor, layer_.dtype, both->second.source, false, notes_);
      parts_["X_k"] = parts_["X_v"] = both->second;
      parts_.erase(both);
    }
    take_positions(parts_, layer_, notes_);
    for (const TensorInfo& info : layer_tensors()) take(info);
  }

  void take_given() {
    for (const auto& [stage, name] : given_) {
      const NamedTensor part = std::move(parts_.at(name));
      parts_.erase(name);
      const Form form = form_of(stage, layer_.dims, is_packed(name));
      const Tensor tensor = narrowed(part.tensor, layer_.dtype, part.source, false, notes_);
      if (tensor.count() != count_of(form.given))
        fail("{} is {}: {} expected", part.source, to_string(tensor.shape()),
             to_string(form.given));
      layer_.given[index_of(stage)] = stored(tensor.reshaped(form.given), form);
      layer_.given_set.add(stage);
    }
  }

  NamedTensors parts_;
  GivenNames given_;
  Layer layer_;
  std::size_t numbers_ = 0; ///< of all tensors together
  std::vector<Note>& notes_;
};

} // namespace

bool turns_in_columns(const std::string& name, const Tensor& tensor) {
  if (tensor.rank() < 2) return false;
  if (const TensorInfo* info = find_tensor_name(name)) return info->turns;
  const std::optional<Stage> stage = find_stage(name);
  return stage && info_of(*stage).kind != Kind::row;
}

DType compute_dtype(const NamedTensors& parts, std::optional<DType> wanted) {
  if (wanted) {
    if (*wanted != DType::f32 && *wanted != DType::f64)
      fail("dtype is {}: layers are computed in float32 or float64", name_of(*wanted));
    return *wanted;
  }
  // X, then its siblings, then the stages in their order, then the rest.
  std::vector<const NamedTensor*> order;
  const auto add = [&](const std::string& name) {
    if (const auto part = parts.find(name); part != parts.end()) order.push_back(&part->second);
  };
  for (const char* name : {"X", "X_kv", "X_k", "X_v", "Q", "K", "V"}) add(name);
  for (const StageInfo& info : stages()) add(std::string(info.name));
  for (const auto& [name, part] : parts) order.push_back(&part);
  for (const NamedTensor* part : order)
    if (!part->weak && is_floating(part->tensor.dtype()))
      return part->tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return order.empty() || !order.front()->weak ? DType::f32 : DType::f64;
}

Layer make_layer(NamedTensors parts, Settings settings, std::optional<DType> dtype, Labels labels,
                 std::vector<Note>* notes) {
  std::vector<Note> unused;
  return Assembler(std::move(parts), std::move(settings), dtype, notes ? *notes : unused)
      .assemble(std::move(labels));
}

} // namespace mha
