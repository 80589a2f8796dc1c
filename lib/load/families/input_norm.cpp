#include <mha/load/families/input_norm.hpp>

#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

namespace mha::naming {

void take_norm_tensors(const DescribedNorm& norm, const Description& description,
                       const DescribedFile& file, std::size_t width, LayerReading& to) {
  InputNormalisation& taken = to.norm;
  taken.module = norm.weight;
  if (!description.is_family || norm.kind == "batch" || norm.kind == "std") {
    const auto [weight, bias] = file.norm(norm, width);
    return to.take_norm(weight ? &*weight : nullptr, bias ? &*bias : nullptr);
  }
  // A missing norm is an error where it is applied.
  taken.module = file.whole_name("norm", split_at(norm.weight, '|')[0]);
  for (const std::string_view name : split_at(norm.weight, '|')) {
    DescribedNorm named = norm;
    named.weight = name;
    const io::Entry* const weight = file.weight(named);
    if (!weight) continue;
    taken.module = file.whole_name("norm", name);
    return to.take_norm(weight, norm.kind == "rms" ? nullptr : file.bias(named));
  }
}

void take_input_norm(const Description& description, const Group& group, const DescribedFile& file,
                     std::size_t width, LayerReading& to) {
  const DescribedNorm* const norm = description.norm("norm");
  if (!description.normalises_before() ||
      (!norm && (description.norm_is_given || !description.is_family)))
    return to.set_post_norm();
  if (!norm) return;
  if (norm->optional && !file.weight(*norm)) return to.set_post_norm();
  to.norm.kind = norm->kind == "rms"     ? NormKind::rms
                 : norm->kind == "batch" ? NormKind::affine
                                         : NormKind::layer;
  to.norm.file = group.contents->name;
  to.norm.one_plus = norm->one_plus, to.norm.needs_weight = norm->affine;
  take_norm_tensors(*norm, description, file, width, to);
  if (norm->kind != "batch" && !description.is_family)
    return to.set("input_norm_eps", fmt::format("{}", epsilon_of(*norm, group)), description.file);
  const std::vector<std::string_view> keys(norm->eps.keys.begin(), norm->eps.keys.end());
  const auto otherwise = parse_number<double>(norm->eps.constant.value_or("1e-5"));
  if (norm->kind != "batch" && !to.set_from_config("input_norm_eps", keys))
    to.set("input_norm_eps", fmt::format("{}", otherwise.value_or(1e-5)));
}

} // namespace mha::naming
