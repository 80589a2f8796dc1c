#pragma once
// The patches of a run: read from text, and given the values that unpatched runs hold.

#include <mha/load/load.hpp>
#include <mha/load/patch_text.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mha {

struct Text;

/// The texts that a patch's VALUE names: from 'text', from ids 1,2,3, from @FILE; with the special
/// tokens of the run's own. Throws Error for another form.
Text texts_named(const PatchText& patch, const Text& own);

/// Puts patches on the layers of a request while these are made (Request::patch_layer).
class Patcher {
public:
  /// PLACE OP VALUE, as typed. Throws Error for what is no patch.
  void add(const std::string& text);
  bool empty() const { return patches_.empty(); }

  /// Adds a layer's patches to it; `id` is empty for what stands behind the last layer. What is to
  /// be known of another text that values are from is handed back, once, and without what was
  /// `said` already. Throws Error where a patch does not fit.
  std::vector<Note> patch(Layer& layer, const std::string& id, const Sources& sources,
                          const std::vector<Note>& said);
  /// Throws Error for the first patch that no computation has read.
  void require_read() const;

private:
  struct Written {
    PatchText text;
    std::vector<IsRead> is_read; ///< of each layer that got it
  };

  bool is_of(const Written& patch, const Layer& layer, const std::string& id,
             const Sources& sources) const;
  void note_other_text(const std::string& value, const std::vector<Note>& notes,
                       const std::vector<Note>& said);
  UnpatchedValues unpatched(const Request& request, const std::string& id, Stage stage,
                            const std::string& value, const std::vector<Note>& said);

  std::vector<Written> patches_;
  std::map<std::string, UnpatchedValues> values_; ///< whole stages, by layer, stage and VALUE
  std::vector<Note> told_, untold_;               ///< of other texts
};

} // namespace mha
