#pragma once
// A hypothesis about another implementation: one change of convention, as an edit of a
// layer.

#include <mha/layer/layer.hpp>
#include <mha/load/edit.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace mha {

/// One change of convention, seen from the layer as given.
struct Change {
  std::string id = {};   ///< "scale.missing"
  StageSet touches = {}; ///< the stages whose formula it changes: it acts on the first of them
  std::string did = {};  ///< what the reference did, after "the reference": "leaves out b_q"
  std::string cure = {}; ///< what to change in the other implementation, one sentence
  /// Makes a layer compute what the reference did. Stages before those touched may be given.
  std::function<void(Layer&)> edit = [](Layer&) {};
  /// What makes the layer as it was given do as the reference does; empty where neither settings
  /// nor another reading of a tensor do.
  Edits reproduction = {};
  /// The rest of the edit, where it goes query by query: it also works on a layer that holds some
  /// of the queries only. May be empty.
  std::function<void(Layer&)> edit_rows = {};
  /// Of a change of the last stage alone: the reference's value of it, with the change undone.
  /// Where some of the queries are looked at, this stands for edit_rows.
  std::function<Tensor(const Tensor& theirs)> undo = {};
  /// Found by fitting a number: any named change that explains as much is preferred.
  bool fitted = false;
  /// Not tried beside another change on one stage of a large layer: people seldom do it, or it
  /// costs a whole map a trial.
  bool rare = false;
  /// Its edit changes what it makes of stages that it touches itself: it must not be made twice.
  bool once = false;
  /// Of the model's end: a token's row is made of other tokens' rows; a logit is made of others of
  /// its row, or by its place among them. Logits as they are may be given before the edit.
  bool other_tokens = false, other_logits = false;
};

/// What is made of a changed layer, if anything; nothing (false) where the layer does not allow the
/// change, which shows where it is made or where its stages are computed.
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

/// A change of settings alone, which they reproduce.
inline Change settings_change(std::string id, StageSet touches, std::string did, std::string cure,
                              Edits settings) {
  const auto edit = [settings](Layer& edited) { settings.apply(edited.settings); };
  return {std::move(id), touches, std::move(did), std::move(cure), edit, std::move(settings)};
}

/// What a theme proposes: a line a change.
class ChangeList {
public:
  /// `settings` reproduce the edit; none where it takes more.
  Change& add(std::string id, StageSet touches, std::string did, std::string cure,
              std::function<void(Layer&)> edit, Edits settings = {}) {
    return add(Change{std::move(id), touches, std::move(did), std::move(cure), std::move(edit),
                      std::move(settings)});
  }
  Change& add(Change change) { return list_.emplace_back(std::move(change)); }
  /// The same, of settings alone.
  Change& add_settings(std::string id, StageSet touches, std::string did, std::string cure,
                       Edits settings) {
    return add(settings_change(std::move(id), touches, std::move(did), std::move(cure),
                               std::move(settings)));
  }
  /// The same, of an edit that goes query by query; `settings` reproduce it.
  Change& add_rows(std::string id, StageSet touches, std::string did, std::string cure,
                   std::function<void(Layer&)> edit_rows, Edits settings = {}) {
    Change& change = add({std::move(id), touches, std::move(did), std::move(cure)});
    change.edit_rows = std::move(edit_rows), change.reproduction = std::move(settings);
    return change;
  }
  /// All of them are seldom made.
  void all_rare() {
    for (Change& change : list_) change.rare = true;
  }
  std::vector<Change> take() { return std::move(list_); }

private:
  std::vector<Change> list_;
};

/// The first stage that a change touches.
Stage stage_of(const Change& change);

/// The whole model that a layer, or the model's ends, are of. Outlives the changes.
struct ModelAround {
  const Embedding* embedding = nullptr;
  std::vector<std::vector<int>> ids;  ///< the texts' tokens, padded at the end
  std::vector<std::size_t> lengths;   ///< those of each that are no padding; empty: all
  std::size_t number = 0, layers = 0; ///< which layer this is, of how many
  /// Another layer, whose weights may have been taken; null where it cannot be had.
  std::function<std::shared_ptr<const Layer>(std::size_t)> layer;
  /// The layer before on what enters it, with a batch axis; null: there is none, or it is not
  /// known.
  std::shared_ptr<const Layer> previous = {};
  /// The tokens that the reference has before and behind each text, padding as a rule; empty: none.
  std::vector<std::vector<int>> before = {}, after = {};

  /// Whether the reference has such tokens beside a text.
  bool is_padded() const {
    const auto has_tokens = [](const std::vector<int>& ids) { return !ids.empty(); };
    return std::ranges::any_of(before, has_tokens) || std::ranges::any_of(after, has_tokens);
  }
};

/// What is known where changes are proposed.
struct Subject {
  const Layer& layer;
  StageSet reference;                 ///< the stages that the reference has
  bool fused = false;                 ///< the layer's projections came as one W_qkv
  const ModelAround* model = nullptr; ///< null: a lone layer
};

/// Changes about one thing: a file of this folder and a line in themes.cpp.
struct Theme {
  std::string_view name; ///< "scale"
  std::string_view ids;  ///< the identifiers that it can name, separated by spaces
  /// The changes that this layer allows: those that would change nothing may be left out.
  std::vector<Change> (*changes)(const Subject& subject);
};

} // namespace mha
