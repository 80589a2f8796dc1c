#include <mha/lint/lint_rotary.hpp>

#include <cmath>

namespace mha {

void find_idle_rope_scaling(const LintSubject& subject, Texts& texts) {
  if (!subject.loaded) return;
  const Settings& s = subject.loaded->layer.settings;
  if (s.rope == Rope::none || s.rope_scaling == RopeScaling::none) return;
  const std::string kind = find_setting("rope_scaling")->get(s);
  if (s.rope_factor == 1 && s.rope_scaling != RopeScaling::longrope)
    texts.emplace_back(fmt::format(
        "rope_scaling {} with rope_factor 1 scales nothing: give the factor of the model's "
        "rope_scaling, or leave it out",
        kind));
  const bool by_length = // llama3's default is Llama 3.1's own
      s.rope_scaling != RopeScaling::linear && s.rope_scaling != RopeScaling::llama3;
  if (by_length && s.origins.count("rope_original_length") == 0)
    texts.emplace_back(fmt::format(
        "rope_scaling {} goes by the length that the model was trained on, and nothing says it: "
        "{:g} is taken; give rope_original_length (original_max_position_embeddings)",
        kind, s.rope_original_length));
}

double scale_of_mscale(const Settings& s) {
  if (s.rope_scaling != RopeScaling::yarn || s.rope_factor <= 1) return 1;
  const double g = 0.1 * s.rope_mscale_all_dim * std::log(s.rope_factor) + 1;
  return g * g;
}

} // namespace mha
