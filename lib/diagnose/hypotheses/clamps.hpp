#pragma once
// Limits inside of a gated feed-forward that a reference leaves out, or sets elsewhere.

#include <mha/diagnose/hypotheses/themes.hpp>

#include <functional>
#include <string>

namespace mha {

/// Adds the changes of a clamp, if it is present: it is left out; it is on the other side of the
/// activation. `touches`: the stage that is limited. `of`: the clamp of a layer to edit.
void add_clamp_changes(const std::string& id, StageSet touches, const Clamp& clamp,
                       const std::function<Clamp&(Layer&)>& of, ChangeList& list);

} // namespace mha
