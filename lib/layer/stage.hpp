#pragma once
// The table of stages: every intermediate of attention under its one name. Help, `mha-inspect
// stages`, docs/stages.md and the tests print or loop over it.

#include <mha/layer/dims.hpp>
#include <mha/system/error.hpp>

#include <array>
#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mha {

struct Layer;

/// The stages; their order is that of the table's rows. Those after `logits` are derived.
enum class Stage : std::uint8_t {
  embed,
  resid_pre,
  x,
  c_q,
  c_kv,
  k_pe,
  q,
  k,
  v,
  q_norm,
  k_norm,
  v_norm,
  q_rope,
  k_rope,
  k_all,
  v_all,
  gate,
  scores,
  scaled,
  capped,
  biased,
  masked,
  row_max,
  shifted,
  exp,
  row_sum,
  logsumexp,
  weights,
  head_out,
  head_norm,
  gated,
  head_result,
  concat,
  output,
  attn_add,
  residual,
  mlp_x,
  router_x,
  router,
  router_scores,
  experts,
  expert_weights,
  experts_x,
  mlp_pre,
  mlp_up,
  mlp_act,
  expert_out,
  experts_sum,
  experts_norm,
  shared_pre,
  shared_up,
  shared_act,
  shared_gate,
  shared_out,
  shared_norm,
  mlp_out,
  mlp_add,
  layer_embed,
  layer_add,
  resid_post,
  final,
  logits,
  weights_mean,
  value_norms,
  value_norms_sum,
  rollout,
  received,
  divergence,
  routing,
};
inline constexpr std::size_t stage_count = static_cast<std::size_t>(Stage::routing) + 1;
/// Those that are steps of the computation.
inline constexpr std::size_t step_count = static_cast<std::size_t>(Stage::logits) + 1;

/// How a stage exists while the layer is computed.
enum class Kind : std::uint8_t {
  token,       ///< a whole tensor, one row a token
  map,         ///< T × S a head, in blocks of 256 queries
  row,         ///< one number a query and head
  head_result, ///< T × d_model a head, in blocks of 256 queries
  derived,     ///< made of whole stages of all heads or layers, once they are there
};

/// Which part of the computation a stage is of.
enum class Section : std::uint8_t {
  model,   ///< around all layers: embed, final, logits
  stream,  ///< what enters a layer
  input,   ///< what the projections see
  heads,   ///< queries, keys and values of heads
  scores,  ///< a number a query and key, up to the mask
  softmax, ///< from there to the weights
  results, ///< of each head
  joined,  ///< of the heads together, up to the layer's output
  sum,     ///< the stream with the output
  block,   ///< what a whole model's layer does around attention
  derived, ///< made of several heads or layers, where it is named
};

/// One row of the table.
struct StageInfo {
  ///@{
  /// Which it is, by number and name, how it exists, and where.
  Stage stage;
  std::string_view name;
  Kind kind;
  Section section;
  ///@}
  std::vector<Dim> letters; ///< the shape, without the batch axis
  std::string_view value;   ///< the formula, short: "X W_q + b_q"
  std::string_view text;    ///< what it is, in words
  std::string_view part;    ///< when it is part of a layer: "always", "if …"
  std::vector<Stage>
      inputs; ///< computed from; one that a layer does not have is replaced by its own inputs
  std::string_view aliases;                ///< other tools' names, separated by spaces
  bool (*is_step)(const Layer&) = nullptr; ///< whether a layer has it at all; nullptr: always
};

/// The steps of the computation, in its order.
MHA_API std::span<const StageInfo> stages();
/// Stages that are made of other stages, of several heads or layers: computed only where they are
/// named, never given, and not patched.
MHA_API std::span<const StageInfo> derived_stages();
MHA_API const StageInfo& info_of(Stage stage);
MHA_API std::string_view name_of(Stage stage);

/// Whether a stage is of the residual stream around attention: part of a layer of a whole model,
/// and of no lone layer. `residual` is of both.
bool is_stream(Stage stage);
/// Whether a stage is of a whole model and none of its layers: embed, final, logits.
bool is_of_model(Stage stage);
/// Whether a stage is one of derived_stages().
bool is_derived(Stage stage);
/// Whether a stage's first axis is one of heads, of queries or of keys and values.
bool begins_with_heads(Stage stage);
/// Whether a stage has rows beside its heads: a head of `received` or `divergence` is one row.
bool has_rows(Stage stage);

/// Whether a stage is of one of these sections.
bool is_of(Stage stage, std::initializer_list<Section> sections);
/// Whether a stage is before another one in the order of the computation: by their rows in the
/// table.
bool comes_before(Stage stage, Stage other);

/// Its row in the table.
inline std::size_t index_of(Stage stage) {
  return static_cast<std::size_t>(stage);
}

/// A set of stages, gone through in the order of the computation.
class StageSet {
public:
  ///@{
  /// None, those of a list, or all steps.
  StageSet() = default;
  StageSet(std::initializer_list<Stage> stages) {
    for (const Stage stage : stages) add(stage);
  }
  explicit StageSet(std::span<const Stage> stages) {
    for (const Stage stage : stages) add(stage);
  }
  static StageSet all() { return ~StageSet(); }
  ///@}

  ///@{
  /// One stage more or less.
  StageSet& add(Stage stage) { return bits_.set(index_of(stage)), *this; }
  StageSet& remove(Stage stage) { return bits_.reset(index_of(stage)), *this; }
  ///@}
  ///@{
  /// What is in it.
  bool contains(Stage stage) const { return bits_.test(index_of(stage)); }
  bool any() const { return bits_.any(); }
  bool none() const { return bits_.none(); }
  std::size_t count() const { return bits_.count(); }
  ///@}

  ///@{
  /// Union, intersection, and the steps that are not in it.
  StageSet& operator|=(const StageSet& other) { return bits_ |= other.bits_, *this; }
  StageSet& operator&=(const StageSet& other) { return bits_ &= other.bits_, *this; }
  friend StageSet operator|(StageSet a, const StageSet& b) { return a |= b; }
  friend StageSet operator&(StageSet a, const StageSet& b) { return a &= b; }
  StageSet operator~() const {
    StageSet others;
    for (std::size_t i = 0; i < step_count; ++i) others.bits_[i] = !bits_[i];
    return others;
  }
  friend bool operator==(const StageSet&, const StageSet&) = default;
  ///@}

  /// A place in the set, for loops.
  class Iterator {
  public:
    ///@{
    /// What the standard library's algorithms ask of an iterator.
    using value_type = Stage;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = void;
    using reference = Stage;
    Iterator() = default;
    Iterator(const StageSet& set, std::size_t at) : set_(&set), at_(at) { skip(); }
    Stage operator*() const { return static_cast<Stage>(at_); }
    Iterator& operator++() { return ++at_, skip(), *this; }
    Iterator operator++(int) {
      const Iterator before = *this;
      return ++*this, before;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }
    ///@}

  private:
    void skip() {
      while (at_ < stage_count && !set_->bits_.test(at_)) ++at_;
    }
    const StageSet* set_ = nullptr;
    std::size_t at_ = 0;
  };
  ///@{
  /// For loops over the stages in it.
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, stage_count}; }
  ///@}

private:
  std::bitset<stage_count> bits_;
};
/// Whether a stage is in a set.
inline bool contains(const StageSet& set, Stage stage) {
  return set.contains(stage);
}

/// The stage that a place's name means.
struct StageOfPlace {
  Stage stage;              ///< which it is
  bool prefers_add = false; ///< hook_attn_out, hook_mlp_out: attn_add and mlp_add where there are
};
/// The table of names that a place is written in: throws Error for one that it does not have.
using StageNames = StageOfPlace (*)(std::string_view name);

} // namespace mha
