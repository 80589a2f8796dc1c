// Rotary position embedding of what it is not meant for: the values.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/rope_turn.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

namespace mha {

namespace {

Tensor turned_values(const Layer& layer) {
  return turned(layer, value_of(layer, Stage::v), turn_of(layer));
}

/// Values are rotated as keys are: before they are saved, or behind that.
std::vector<Change> value_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  if (layer.settings.rope == Rope::none || layer.dims.d_v != layer.dims.d_k) return {};
  ChangeList list;
  constexpr const char *did = "rotates v, too", *cure = "rotate q and k alone";
  list.add("rope.values", StageSet{Stage::v}, did, cure,
           [](Layer& edited) { give(edited, Stage::v, turned_values(edited)); })
      .once = true;
  if (contains(subject.reference, Stage::v))
    list.add("rope.values", StageSet{Stage::head_out, Stage::head_result}, did, cure,
             [](Layer& edited) {
               Layer other = edited;
               give(other, Stage::v, turned_values(edited));
               take_back(other, {Stage::head_out});
               give(edited, Stage::head_out, value_of(other, Stage::head_out));
             });
  list.all_rare();
  return list.take();
}

} // namespace

const Theme rope_values_theme{"rope_values", "rope.values", value_changes};

} // namespace mha
