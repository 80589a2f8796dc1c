#pragma once
// A hypothesis about another implementation: a change of convention, as an edit of a layer.

#include <mha/layer/layer.hpp>
#include <mha/load/edit.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace mha {

/// A change of convention, relative to the given layer.
struct Change {
  std::string id = {};   ///< "scale.missing"
  StageSet touches = {}; ///< the stages whose formula it changes; it acts from the first on
  std::string did = {}; ///< what the reference does, continuing "the reference …": "leaves out b_q"
  std::string cure = {}; ///< what to change in the other implementation: "add b_q after …"
  /// Makes a layer compute what the reference did. Stages before the touched ones may be given.
  std::function<void(Layer&)> edit = [](Layer&) {};
  /// Settings or tensor options with which the given layer does what the reference does; empty if
  /// none do.
  Edits reproduction = {};
  /// The part of the edit that works query by query, and so also on a layer with only some of the
  /// queries. May be empty.
  std::function<void(Layer&)> edit_rows = {};
  /// For a change of the last stage only: the reference's value with the change undone. Used in
  /// place of edit_rows if only some of the queries are computed.
  std::function<Tensor(const Tensor& theirs)> undo = {};
  /// Has a fitted number: a change without one that explains as much is preferred.
  bool fitted = false;
  /// On large layers not tried together with another change at one stage, because it is unlikely or
  /// each trial computes a whole map.
  bool rare = false;
  /// The edit reads stages that it changes, so that it must not be made twice.
  bool once = false;
  /// For changes of the model's end: a token's row depends on other tokens' rows; a logit depends
  /// on other logits of its row or on its index. The unchanged logits may be given before the edit.
  bool other_tokens = false, other_logits = false;
};

/// The result of `make`, or nothing (false) if the layer does not allow the change, which throws
/// Error when the change is made or a stage is computed.
template <class Make> auto if_allowed(const Make& make) {
  using Made = std::invoke_result_t<Make>;
  if constexpr (std::is_void_v<Made>) {
    try {
      make();
      return true;
    } catch (const Error&) {
      return false;
    }
  } else {
    try {
      return std::optional<Made>(make());
    } catch (const Error&) {
      return std::optional<Made>();
    }
  }
}

/// A change of settings only, which these settings also reproduce.
inline Change settings_change(std::string id, StageSet touches, std::string did, std::string cure,
                              Edits settings) {
  const auto edit = [settings](Layer& edited) { settings.apply(edited.settings); };
  return {std::move(id), touches, std::move(did), std::move(cure), edit, std::move(settings)};
}

/// The list of changes that a theme proposes.
class ChangeList {
public:
  /// Adds a change; `settings` reproduce the edit if they suffice.
  Change& add(std::string id, StageSet touches, std::string did, std::string cure,
              std::function<void(Layer&)> edit, Edits settings = {}) {
    return add(Change{std::move(id), touches, std::move(did), std::move(cure), std::move(edit),
                      std::move(settings)});
  }
  Change& add(Change change) { return list_.emplace_back(std::move(change)); }
  /// Adds a change of settings only.
  Change& add_settings(std::string id, StageSet touches, std::string did, std::string cure,
                       Edits settings) {
    return add(settings_change(std::move(id), touches, std::move(did), std::move(cure),
                               std::move(settings)));
  }
  /// Adds a change that works query by query; `settings` reproduce it.
  Change& add_rows(std::string id, StageSet touches, std::string did, std::string cure,
                   std::function<void(Layer&)> edit_rows, Edits settings = {}) {
    Change& change = add({std::move(id), touches, std::move(did), std::move(cure)});
    change.edit_rows = std::move(edit_rows), change.reproduction = std::move(settings);
    return change;
  }
  /// Marks all changes as rare.
  void all_rare() {
    for (Change& change : list_) change.rare = true;
  }
  std::vector<Change> take() { return std::move(list_); }

private:
  std::vector<Change> list_;
};

/// The first stage that a change touches.
Stage stage_of(const Change& change);

/// The model that contains a layer or ends. Must outlive the changes.
struct ModelAround {
  const Embedding* embedding = nullptr;
  std::vector<std::vector<int>> ids; ///< the texts' tokens, padded at the end
  /// The number of tokens of each that are not padding; empty: all.
  std::vector<std::size_t> lengths;
  std::size_t number = 0, layers = 0; ///< the layer's number, and the number of layers
  /// Returns another layer, whose weights the reference may have used; null if it is not available.
  std::function<std::shared_ptr<const Layer>(std::size_t)> layer;
  /// The previous layer with its input and a batch axis; null if there is none or its input is
  /// unknown.
  std::shared_ptr<const Layer> previous = {};
  /// Tokens, usually padding, that the reference has before and after each text; empty: none.
  std::vector<std::vector<int>> before = {}, after = {};

  /// Whether the reference has such tokens around a text.
  bool is_padded() const {
    const auto has_tokens = [](const std::vector<int>& ids) { return !ids.empty(); };
    return std::ranges::any_of(before, has_tokens) || std::ranges::any_of(after, has_tokens);
  }
};

/// What the proposed changes depend on.
struct Subject {
  const Layer& layer;
  StageSet reference;                 ///< the stages that the reference has
  bool fused = false;                 ///< the layer's projections were loaded from one W_qkv
  const ModelAround* model = nullptr; ///< null: a lone layer
};

/// Changes that concern one idea, listed in themes.hpp.
struct Theme {
  std::string_view name; ///< "scale"
  std::string_view ids;  ///< the ids of its changes, separated by spaces
  /// The changes that a layer allows; those without effect may be left out.
  std::vector<Change> (*changes)(const Subject& subject);
};

} // namespace mha
