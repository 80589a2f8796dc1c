#pragma once
// The patches of a run: read from text, and given the values that unpatched runs hold.

#include <mha/load/edit.hpp>
#include <mha/model/run_request.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mha {

/// The texts that a run names: from 'text', from ids 1,2,3, from @FILE; with the special tokens of
/// the run's own. Throws Error, which begins with `said`, for another form.
Text texts_named(const std::string& run, const Text& own, const std::string& said);

/// Puts a run's patches on a layer; `id` is empty for what follows the last one. Returns what
/// is to be known of their values, such as of the text that they are from, once, and without what
/// was `said` already.
using PatchLayer = std::function<std::vector<Note>(Layer& layer, const std::string& id,
                                                   const std::vector<Note>& said)>;

/// The patches of a run, which it puts on the layers that it makes.
class Patcher {
public:
  /// PLACE OP VALUE, as typed. Throws Error for what is no patch.
  void add(const std::string& text);
  bool empty() const { return patches_.empty(); }
  /// As typed, in their order.
  std::vector<std::string> typed() const;

  /// Adds a layer's patches to it (PatchLayer), of a run of `request` whose files are `sources`.
  /// Throws Error where a patch does not fit.
  std::vector<Note> patch(Layer& layer, const std::string& id, const Sources& sources,
                          const RunRequest& request, const std::vector<Note>& said);
  /// Throws Error for the first patch that no computation has read.
  void require_read() const;

private:
  struct Written {
    Edit edit;
    std::vector<IsRead> is_read; ///< of each layer that got it
  };

  bool is_of(const Written& patch, const Layer& layer, const std::string& id,
             const Sources& sources) const;
  void note_other_text(const std::string& value, const std::vector<Note>& notes,
                       const std::vector<Note>& said);
  UnpatchedValues unpatched(const RunRequest& request, const std::string& id, Stage stage,
                            const std::string& value, const std::vector<Note>& said);

  std::vector<Written> patches_;
  std::map<std::string, UnpatchedValues> values_; ///< whole stages, by layer, stage and VALUE
  std::vector<Note> told_, untold_;               ///< of other texts
};

} // namespace mha
