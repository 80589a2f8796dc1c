// The description of the whole model that a layer belongs to.

#include <mha/load/families/family_text.hpp>

#include <mha/load/families/steps.hpp>
#include <mha/system/named.hpp>

namespace mha::naming {

bool has_whole_model(const FamilyRow& family) {
  return !family.whole_models.empty();
}

std::string_view whole_models_of(const FamilyRow& family) {
  return family.whole_models == "*" ? "" : family.whole_models;
}

std::shared_ptr<const Description> model_of(const FamilyRow& family, const Group& group) {
  if (group.description) return group.description;
  const Description& description = description_of(family, group, true);
  for (const Message& why : description.refusals) fail("{}: {}", group.contents->name, why);
  for (const std::string& key : description.known_keys) group.has_key(key);
  // These count as read even for a lone layer.
  for (const DescribedValue* value : {&description.token_scale, &description.first_position,
                                      &description.head_scale, &description.residual_scale})
    value->value(group);
  for (const BiasRule* rule : {&description.mlp_bias, &description.norm_bias}) rule->of(group);
  if (description.model_steps.empty())
    return {std::shared_ptr<void>(), &description}; // it lives as long as the program
  auto settled = std::make_shared<Description>(description);
  for (const DescribedStep& step : description.model_steps)
    find_named(model_steps(), step.name)->settle(group, *settled, step.arguments);
  return settled;
}

} // namespace mha::naming
