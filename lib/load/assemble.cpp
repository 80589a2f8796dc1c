#include <mha/load/assemble.hpp>

#include <mha/layer/fused.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/check_settings.hpp>
#include <mha/load/labels.hpp>
#include <mha/load/latent.hpp>
#include <mha/load/masks.hpp>
#include <mha/load/narrowing.hpp>
#include <mha/load/sizes.hpp>
#include <mha/load/take_positions.hpp>

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
    for (const auto& [name, part] : parts_) numbers_ += part.tensor.count();
  }

  Layer assemble(Labels labels) {
    require_settings_within(layer_.settings, layer_.dtype);
    turn_columns();
    choose_given();
    const HeadCounts heads = find_heads(parts_, given_, layer_.settings, notes_);
    unfuse(heads);
    split_latent(parts_, layer_.settings, heads.H);
    layer_.dims = find_sizes(parts_, given_, layer_.settings, heads, notes_);
    require_plausible(layer_.dims);
    const std::string head_source = first_of({"W_q", "q", "Q", "W_k", "k", "K", "X"});
    const std::string output_source = first_of({"W_o", "output", "W_v", "v", "V"});
    take_inputs();
    take_weights();
    take_masks(parts_, layer_, notes_);
    const NamedTensor* result = find("head_result");
    const bool is_patch = result && result->bound;
    take_given();
    take_labels(std::move(labels), layer_, notes_);
    if (!parts_.empty()) fail("{} is no tensor of a layer", parts_.begin()->second.source);
    check_settings(layer_, head_source, output_source, notes_);
    if (is_patch) patch_given_head_result(layer_);
    return std::move(layer_);
  }

private:
  const NamedTensor* find(const char* name) const {
    const auto part = parts_.find(name);
    return part == parts_.end() ? nullptr : &part->second;
  }

  /// Arrays without numbers may claim any length, and num_heads is what somebody says: neither may
  /// make work or take memory that no tensor's numbers are behind.
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

  /// Which results of the files start the computation. One that was bound always does; one that was
  /// merely found does only where what it is computed from is missing.
  void choose_given() {
    Layer probe; // only what is there, no sizes yet
    probe.settings = layer_.settings;
    probe.dims.S = probe.dims.S_all = probe.dims.H = probe.dims.d_k = probe.dims.d_v = 1;
    const auto tensor = [&](const char* name) {
      return find(name) ? find(name)->tensor : Tensor();
    };
    probe.X = tensor("X");
    probe.X_k = find("X_kv") ? tensor("X_kv") : tensor("X_k");
    probe.X_v = find("X_kv") ? tensor("X_kv") : tensor("X_v");
    probe.q_norm_weight = tensor("q_norm.weight");
    probe.k_norm_weight = tensor("k_norm.weight");
    probe.sinks = tensor("sinks");
    probe.W_c_q = tensor("W_q_a"), probe.W_c_kv = tensor("W_kv_a");
    if (find("bias") || find("relative_bias") || find("relative_key")) probe.bias.emplace_back();
    if (find("k_past") || find("k_extra") || layer_.settings.zero_attn) probe.dims.S_all = 2;
    const bool fused = find("W_qkv") != nullptr;
    // No weight is the identity, but a result that is there is a better guess than that.
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
    std::string passed_over, source;
    for (const StageInfo& info : stages()) {
      const Stage stage = info.stage;
      const auto candidate = candidates.find(stage);
      const bool computable = can_compute(probe, stage, available);
      if (candidate != candidates.end()) {
        if (parts_.at(candidate->second).bound || !computable || !projected(stage)) {
          probe.given_set.set(index_of(stage));
          given_[stage] = candidate->second;
        } else {
          passed_over += fmt::format("{}{}", passed_over.empty() ? "" : ", ", candidate->second);
          source = parts_.at(candidate->second).source;
          parts_.erase(candidate->second);
        }
      }
      if (computable || probe.has_given(stage)) available.set(index_of(stage));
    }
    if (!passed_over.empty())
      notes_.emplace_back(fmt::format(
          "{} in the files: results, computed again from the layer; to start from one, bind "
          "it: NAME=FILE",
          passed_over));
  }

  /// W_qkv and b_qkv become W_q … b_v.
  void unfuse(HeadCounts heads) {
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
          fail("{} and {} are both given; one of them is to go", part.source, at->second.source);
        at->second.tensor = *tensor;
        at->second.source = fmt::format("{}, its columns of {},", part.origin(), name);
        at->second.from = part.origin();
      }
      parts_.erase(std::string(letter) + "qkv");
    }
  }

  /// A part in the layer's precision, reshaped; empty if it is not there.
  Tensor take(const char* name, const Shape& shape) {
    const auto part = parts_.find(name);
    if (part == parts_.end()) return {};
    const Tensor tensor =
        narrowed(part->second.tensor, layer_.dtype, part->second.source, false, notes_);
    if (tensor.count() != count_of(shape))
      fail("{} is {}: {} expected", part->second.source, to_string(tensor.shape()),
           to_string(shape));
    parts_.erase(part);
    return tensor.reshaped(shape);
  }

  void take_inputs() {
    const Dims& d = layer_.dims;
    layer_.X = take("X", {d.B, d.T, d.d_model});
    for (const char* name : {"X_kv", "X_k", "X_v"}) {
      if (!find(name)) continue;
      const Tensor source = take(name, {d.B, d.S, find(name)->tensor.shape().back()});
      if (std::string_view(name) != "X_v") layer_.X_k = source;
      if (std::string_view(name) != "X_k") layer_.X_v = source;
    }
    for (const auto& [name, past, width] :
         {std::tuple("k_past", &layer_.k_past, d.d_k), {"v_past", &layer_.v_past, d.d_v}})
      if (find(name))
        *past = permuted(take(name, {d.B, d.H_kv, d.past, width}), {0, 2, 1, 3})
                    .reshaped({d.B, d.past, d.H_kv * width});
  }

  /// Weights as (in, out), heads side by side; one matrix per head is put together.
  Tensor take_projection(const char* name) {
    const NamedTensor* part = find(name);
    if (!part) return {};
    const Shape s = part->tensor.shape(); // a copy: take() lets the part go
    if (s.size() == 2) return take(name, s);
    const Tensor heads = take(name, s);
    return std::string_view(name) == "W_o"
               ? heads.reshaped({s[0] * s[1], s[2]})
               : permuted(heads, {1, 0, 2}).reshaped({s[1], s[0] * s[2]});
  }

  void take_weights() {
    const Dims& d = layer_.dims;
    layer_.W_q = take_projection("W_q"), layer_.W_k = take_projection("W_k"),
    layer_.W_v = take_projection("W_v");
    layer_.W_o = take_projection("W_o");
    const std::size_t q = d.H * d.d_k, k = d.H_kv * d.d_k, v = d.H_kv * d.d_v;
    layer_.b_q = take("b_q", {q}), layer_.b_k = take("b_k", {k}), layer_.b_v = take("b_v", {v});
    layer_.b_o = take("b_o", {d.d_out});
    layer_.k_extra = take("k_extra", {k}), layer_.v_extra = take("v_extra", {v});
    layer_.sinks = take("sinks", {d.H});
    // Without X nothing says d_model but these.
    const auto input_norm = [&](const char* name) {
      const NamedTensor* part = find(name);
      return take(name, {part && layer_.X.empty() ? part->tensor.count() : d.d_model});
    };
    layer_.norm_weight = input_norm("norm.weight"), layer_.norm_bias = input_norm("norm.bias");
    const auto norm = [&](const char* name, std::size_t heads) {
      const NamedTensor* part = find(name);
      if (part && part->tensor.rank() == 2) return take(name, {heads, d.d_k}); // each head its own
      return take(name, {part && part->tensor.count() == heads * d.d_k ? heads * d.d_k : d.d_k});
    };
    layer_.q_norm_weight = norm("q_norm.weight", d.H),
    layer_.q_norm_bias = norm("q_norm.bias", d.H);
    layer_.k_norm_weight = norm("k_norm.weight", d.H_kv);
    layer_.k_norm_bias = norm("k_norm.bias", d.H_kv);
    take_latent();
    take_positions(parts_, layer_, notes_);
    const bool some = !layer_.W_q.empty() || !layer_.W_k.empty() || !layer_.W_v.empty();
    for (const auto& [W, name, stage] : {std::tuple(&layer_.W_q, "W_q", Stage::q),
                                         {&layer_.W_k, "W_k", Stage::k},
                                         {&layer_.W_v, "W_v", Stage::v}})
      if (some && W->empty() && !given_.count(stage) && !layer_.X.empty())
        notes_.push_back(warning(fmt::format("there is no {}: it is taken as the identity", name)));
  }

  /// What split_latent has made of latent attention's tensors.
  void take_latent() {
    const Dims& d = layer_.dims;
    const auto rows = [&](const char* name) {
      const NamedTensor* part = find(name);
      return part ? part->tensor.shape()[0] : 0;
    };
    layer_.W_c_q = take("W_q_a", {rows("W_q_a"), d.r_q}), layer_.b_c_q = take("b_q_a", {d.r_q});
    layer_.W_c_kv = take("W_c_kv", {rows("W_c_kv"), d.r_kv});
    layer_.W_k_pe = take("W_k_pe", {rows("W_k_pe"), d.d_pe});
    layer_.b_c_kv = take("b_c_kv", {d.r_kv}), layer_.b_k_pe = take("b_k_pe", {d.d_pe});
    layer_.c_q_norm_weight = take("q_a_norm.weight", {d.r_q});
    layer_.c_kv_norm_weight = take("kv_a_norm.weight", {d.r_kv});
  }

  /// Given stages: (B, T, H · d) for token stages, else as the table says with B in front.
  void take_given() {
    const Dims& d = layer_.dims;
    for (const auto& [stage, name] : given_) {
      const StageInfo& info = info_of(stage);
      Shape shape{d.B};
      for (Dim letter : info.letters) shape.push_back(d.size_of(letter));
      const bool heads = info.kind == Kind::token && info.letters.size() == 3;
      Tensor tensor;
      if (heads && is_packed(name))
        tensor = take(name.c_str(), {d.B, shape[2], shape[1] * shape[3]});
      else
        tensor = take(name.c_str(), shape);
      if (heads && !is_packed(name))
        tensor = permuted(tensor, {0, 2, 1, 3}).reshaped({d.B, shape[2], shape[1] * shape[3]});
      layer_.given[index_of(stage)] = tensor;
      layer_.given_set.set(index_of(stage));
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
  if (wanted && *wanted != DType::f32 && *wanted != DType::f64)
    fail("dtype is {}: layers are computed in float32 or float64", name_of(*wanted));
  if (wanted) return *wanted;
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
  std::vector<Note> unheard;
  return Assembler(std::move(parts), std::move(settings), dtype, notes ? *notes : unheard)
      .assemble(std::move(labels));
}

} // namespace mha
