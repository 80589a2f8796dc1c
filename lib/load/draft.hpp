#pragma once
// Makes a draft of a description from names and shapes, for draft_naming.cpp.

#include <mha/load/described_names.hpp>
#include <mha/load/described_tensors.hpp>
#include <mha/load/name_words.hpp>
#include <mha/load/numbered_stack.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha {

/// Keys of a description in their order, each with its value as JSON.
class DraftKeys {
public:
  bool contains(std::string_view key) const {
    return std::ranges::find(keys_, key, &Member::first) != keys_.end();
  }
  /// The value of a key; "" of others.
  std::string_view find(std::string_view key) const {
    const auto at = std::ranges::find(keys_, key, &Member::first);
    return at != keys_.end() ? std::string_view(at->second) : std::string_view();
  }
  /// The value of a key; a new one is empty.
  std::string& operator[](std::string_view key) {
    const auto at = std::ranges::find(keys_, key, &Member::first);
    return at != keys_.end() ? at->second : keys_.emplace_back(key, "").second;
  }
  auto begin() const { return keys_.begin(); }
  auto end() const { return keys_.end(); }

private:
  using Member = std::pair<std::string, std::string>;
  std::vector<Member> keys_;
};

/// Whether all axes but one have one element.
inline bool is_one_row(const io::Entry& entry) {
  return squeezed(entry.shape, 1).size() == 1;
}

class Draft {
public:
  Draft(const io::Contents& file, NumberedStack stack) : file_(file), stack_(std::move(stack)) {
    for (const io::Entry* entry : stack_.of_first)
      if (!is_buffer(*entry))
        (squeezed(entry->shape, 2).size() >= 2 ? matrices_ : vectors_).push_back(entry);
    for (const io::Entry& entry : file.tensors)
      if (!stack_.holds(entry.name) && stack_.other_tower(entry.name).empty() &&
          !stack_.is_of_other_part(entry.name))
        others_.push_back(&entry);
    if (!stack_.towers.empty()) sort_others(); // top-level tensors may be another tower's
  }
  std::optional<std::string> text();

private:
  /// Takes the first of `from` that fits; nullptr: none does.
  template <class Fits>
  const io::Entry* taken(std::vector<const io::Entry*>& from, const Fits& fits) {
    const auto at = std::ranges::find_if(from, fits);
    if (at == from.end()) return nullptr;
    const io::Entry* entry = *at;
    from.erase(at);
    claim(entry->name);
    return entry;
  }
  static constexpr const char* W_o = "W_o";
  static constexpr std::string_view query_key_value = "query_key_value";
  void claim(const std::string& name);
  /// Finds d_model by a norm or the positions' rows; 0 where there is neither.
  void find_width();
  /// Puts a layer's tensor under a key. The first of three axes is the heads.
  void set(const char* key, const io::Entry* entry);
  /// The name of a layer's tensor. Where similar tensors have other numbers in the same place, each
  /// is one head's: "heads.{head}.query.weight".
  std::string name_of_heads(const io::Entry& entry);
  void take_attention();
  /// Takes biases of a fused weight that have names of their own: "attn.q_bias".
  void take_biases();
  /// Throws Error where layers have a second attention, over another stream.
  void refuse_second_attention() const;
  /// Takes matrices of one shape that are numbered 0 to 2 or 3: queries, keys, values, output.
  void take_listed();
  /// Takes the vectors that multiply the results of attention and feed-forward (LayerScale).
  void take_scales();
  void take_feed_forward();
  /// Drops what is left in attention's module where the feed-forward has a module of its own.
  void leave_attention();
  /// Whether a map gives twice what the next one takes: a factor and its gate in one tensor.
  static bool is_gated(const io::Entry& in, const io::Entry& out);
  /// Takes a gate and its factor in one tensor: the gate is the first half in most models, the
  /// second in modules that are called "ff.0.proj" (x-transformers and similar libraries).
  void take_gated();
  bool is_batch_norm(const io::Entry& weight) const;
  void take_norms();
  void set_norm(const char* key, const io::Entry* entry);
  /// Whether a tensor is a matrix outside the layers.
  static bool is_other_matrix(const io::Entry& entry);
  const io::Entry* other_matrix(WordList words, WordList parts);
  /// The matrix that makes logits: by its name, else by a shape with as many rows as there are
  /// tokens.
  const io::Entry* head_weight();
  /// A norm's weight outside the layers, of one of these widths, or of any.
  const io::Entry* other_norm(WordList parts, const Shape& widths = {});
  /// The table of positions, as wide as the model; none where positions are relative or rotary by
  /// config.json, although the file may still have an old table.
  const io::Entry* table_of_positions();
  /// The norm before the layers. One whose name has "after" is taken as the final norm.
  const io::Entry* norm_of_embedding();
  // Each of these returns JSON as a description has it, or null for none.
  std::string steps_of_embed();
  std::string head_of_model();
  std::string last_norm();
  /// Sorts the others by nearness to the layers in the tree of modules.
  void sort_others();
  /// A norm as a description has it: `stored`, its weight's name; with its own epsilon where its
  /// module has another than the layers' first norm.
  std::string norm_named(const std::string& tensor, const std::string& stored) const;
  /// "config:KEY" of the first key that config.json has in the modules around a tensor, the layers'
  /// own modules, at the top, or in an object of this part of the model; else `otherwise`.
  std::string configured(WordList keys, std::string otherwise, std::string_view near = "") const;
  /// The key in an object of this part of the model, or in any object where all have the same
  /// value; "": none has it.
  std::string key_of_part(std::string_view key) const;
  /// Whether an object of config.json belongs to a pickled module outside the layers.
  bool is_other_module(std::string_view object) const;
  /// The value of a key in the layers' own pickled modules; nullptr: none has it.
  const std::pair<const std::string, std::string>* config_of_layers(std::string_view key) const;
  /// The block's shape: pre, post, parallel or attention_only.
  std::string block(bool after) const;
  /// Whether the model predicts the next token, by its class or a triangular mask.
  bool predicts_next() const;
  std::string settings(bool causal) const;
  /// Whether a tensor is a buffer that does not affect the model's numbers.
  static bool is_buffer(const io::Entry& entry);
  /// Patterns for "ignore": buffers, and modules without any named tensor. Other unnamed weights
  /// are not ignored, so that a run warns of them.
  std::vector<std::string> leftovers() const;
  const io::Contents& file_;
  NumberedStack stack_;
  std::vector<const io::Entry*> matrices_, vectors_, others_; ///< of a layer; outside the layers
  std::set<std::string> claimed_;                             ///< patterns
  DraftKeys tensors_;
  std::string norm_kind_ = "layer", final_;
  std::size_t width_ = 0;                   ///< d_model; 0: not known
  bool tokens_ = false, positions_ = false; ///< there is a table of them
  std::size_t words_ = 0;                   ///< the tokens of the table
  bool shares_keys_ = false;                ///< fewer keys and values than queries
  bool norm_first_ = false;                 ///< the norm is before attention in the file
  std::size_t heads_ = 0;                   ///< counted by tensors of one head each; 0: not known
  const io::Entry* attention_ = nullptr;    ///< the first of its matrices
};

} // namespace mha
