#pragma once
// The patches of a run: read from text, given the values that unpatched runs hold, and put on
// layers.

#include <mha/load/edit.hpp>
#include <mha/model/run.hpp>
#include <mha/model/run_request.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace mha {

/// Whole stages of the run without patches (`mean`), and of runs of the texts that edits name. Each
/// run is one pass for all layers, and each stage is computed once.
class ValueRuns {
public:
  /// Makes the layers of a value ("mean", "from 'text'") with its texts.
  using Make = std::function<std::shared_ptr<const TextLayers>(const std::string& value)>;
  explicit ValueRuns(Make make) : make_(std::move(make)) {}

  /// A stage of layer n, or of the model's end. May be called by several threads.
  UnpatchedValues stage(std::size_t n, Stage stage, const std::string& value);

private:
  Make make_;
  std::mutex lock_;
  std::map<std::string, std::unique_ptr<Streams>> runs_;
  std::map<std::tuple<std::string, std::size_t, Stage>, UnpatchedValues> stages_;
};

/// Puts an edit on its layer, which has this number. An edit of embed changes the first layer's
/// stream. Throws Error, which begins with the edit's text, where it does not fit.
const ResolvedEdit& put_on(Layer& layer, StageEdit edit, std::size_t number,
                           const UnpatchedStage& unpatched);

/// The texts that a run names: from 'text', from ids 1,2,3, from @FILE; with the special tokens of
/// the run's own. Throws Error, which begins with `prefix`, for another form.
Text texts_named(const std::string& run, const Text& own, const std::string& prefix);

/// The patches of a run, which it puts on the layers that it makes.
class Patcher {
public:
  /// PLACE OP VALUE, as typed. Throws Error for text that is not a patch.
  void add(const std::string& text);
  bool empty() const { return patches_.empty(); }
  /// As typed, in their order.
  std::vector<std::string> typed() const;

  /// The run of a layer.
  struct LayerOrigin {
    const Text& text; ///< its own, for `mean`
    const Sources& sources;
    std::shared_ptr<const Weights> weights; ///< of a whole model's; else null
  };
  /// Adds a layer's patches to it (PatchLayer). Throws Error where a patch does not fit.
  std::vector<Note> patch(Layer& layer, const std::string& id, const LayerOrigin& run,
                          const std::vector<Note>& reported);
  /// Throws Error for the first patch that no computation has read.
  void require_read() const;

private:
  struct Written {
    StageEdit edit;
    std::vector<IsRead> is_read; ///< of each layer that got it
  };

  bool is_of(const Written& patch, const Layer& layer, const std::string& id,
             const Sources& sources) const;
  void note_other_text(const std::string& value, const std::vector<Note>& notes,
                       const std::vector<Note>& reported);
  UnpatchedStage unpatched(const Layer& layer, const std::string& id, const LayerOrigin& run,
                           const std::vector<Note>& reported);

  std::vector<Written> patches_;
  std::shared_ptr<const Weights> weights_; ///< of runs_
  std::unique_ptr<ValueRuns> runs_;
  std::map<std::pair<std::string, Stage>, Tensor> of_files_; ///< stages of layers without a text
  std::vector<Note> reported_, unreported_;                  ///< notes about other texts
};

} // namespace mha
