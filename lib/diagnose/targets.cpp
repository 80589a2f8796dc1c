#include <mha/diagnose/targets.hpp>

#include <mha/compare/diff.hpp>
#include <mha/compare/precision.hpp>
#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/hypotheses/precision.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/layer/graph.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha {

namespace {

Target target_of(const Layer& layer, const ReferenceStage& known) {
  Target target;
  target.stage = known.stage;
  target.theirs =
      without_padding(with_given(layer, known.stage, known.value).given[index_of(known.stage)],
                      known.stage, layer.lengths);
  const bool gathered = known.stage == Stage::embed || known.stage == Stage::resid_pre ||
                        (known.stage == Stage::x && layer.settings.input_norm == InputNorm::none);
  if (is_short(known.stored)) target.half = known.stored;
  for (DType dtype : {DType::f16, DType::bf16}) // bfloat16 numbers may be float16's, too
    if (!is_short(known.stored) && !gathered && uses_type(target.theirs, dtype))
      target.half = dtype;
  target.stored = target.half.value_or(known.stored), target.resolution = known.resolution;
  target.tolerance = std::max({tolerance_of(layer.dtype), tolerance_of(known.stored),
                               target.half ? tolerance_of(*target.half) : 0});
  return target;
}

} // namespace

std::vector<Target> targets_of(const Layer& layer, const std::vector<ReferenceStage>& reference) {
  if (reference.empty()) fail("the reference has no stage to compare");
  std::vector<Target> targets;
  const StageSet available = available_stages(layer);
  std::string lacking;
  for (const ReferenceStage& one : reference)
    if (one.mean_of_heads)
      continue; // no head's weights: changes cannot be judged by it
    else if (contains(available, one.stage))
      targets.push_back(target_of(layer, one));
    else // nothing says how to compute it
      lacking += fmt::format("{}{}", lacking.empty() ? "" : ", ", name_of(one.stage));
  if (targets.empty() && lacking.empty())
    fail("the reference has the mean of the weights over the heads alone, which tells no cause: "
         "save the output, or each head's weights (average_attn_weights=False)");
  if (targets.empty())
    fail("nothing to compare: the reference has {}, which nothing here says how to compute",
         lacking);
  std::sort(targets.begin(), targets.end(),
            [](const Target& a, const Target& b) { return comes_before(a.stage, b.stage); });
  return targets;
}

} // namespace mha
