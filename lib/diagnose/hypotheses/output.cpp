// Mistakes in the output projection and the residual connection.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

namespace mha {

namespace {

std::vector<Change> output_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Dims& dims = layer.dims;
  ChangeList list;
  const StageSet projected = StageSet{Stage::head_result, Stage::output};
  if (!layer.W_o.empty() && dims.H * dims.d_v == dims.d_out) {
    const std::string cure = "multiply the joined heads by W_o";
    list.add("output.missing", projected, "returns the joined heads, without W_o", cure,
             [](Layer& edited) { edited.W_o = {}, edited.b_o = {}; });
    if (!layer.b_o.empty())
      list.add("output.missing", projected, "leaves out W_o, but adds b_o", cure,
               [](Layer& edited) { edited.W_o = {}; });
    if (dims.d_out > 1)
      list.add("output.transposed", projected, "multiplies by W_oᵀ",
               fmt::format("transpose W_o: it is (H · d_v, d_model) = ({}, {}), applied as concat "
                           "W_o",
                           dims.H * dims.d_v, dims.d_out),
               [](Layer& edited) {
                 if (!edited.W_o.empty()) edited.W_o = transposed(edited.W_o);
               })
          .reproduction.add(TensorEdit{.name = "W_o", .axes = "OI"});
  }
  if (layer.X.empty() || dims.d_out != dims.d_model) return list.take();
  if (layer.settings.residual)
    list.add_rows(
        "residual.missing", StageSet{Stage::residual}, "does not add the input back",
        "add the input to the output",
        [](Layer& edited) { give(edited, Stage::residual, value_of(edited, Stage::output)); },
        {{"residual", false}});
  else
    list.add_rows("residual.added", StageSet{Stage::output}, "adds the input to the output",
                  "compare before the residual connection: the output alone",
                  [](Layer& edited) {
                    give(edited, Stage::output, sum_of(value_of(edited, Stage::output), edited.X));
                  },
                  {{"residual", true}});
  return list.take();
}

} // namespace

const Theme output_theme{
    "output", "output.missing output.transposed residual.missing residual.added", output_changes};

} // namespace mha
