#include <mha/load/families/positions.hpp>

#include <mha/load/families/family.hpp>
#include <mha/maths/functions.hpp>
#include <mha/system/parse.hpp>

#include <cmath>

namespace mha::naming {

void check_frequencies(LayerReading& to) {
  const Group& group = to.group();
  const io::Entry* entry = nullptr;
  std::string_view name;
  for (const std::string_view known :
       {"rotary_emb.inv_freq", "self.rotary_embeddings.inv_freq"}) // the latter is ESM's
    if (const io::Entry* found = group.find(known)) entry = found, name = known;
  if (!entry) return;
  double base = 10000;
  std::size_t dims = to.head_width().value_or(0);
  for (const LayerReading::FamilySetting& setting : to.settings)
    if (setting.name == "rope_base" || setting.name == "rope_dims") {
      if (setting.name == "rope_base")
        base = parse_number<double>(setting.value).value_or(0);
      else
        dims = parse_number<std::size_t>(setting.value).value_or(0);
    }
  bool same = entry->shape == Shape{dims / 2} && is_floating(entry->dtype);
  const Tensor buffer = group.read(*entry);
  for (std::size_t i = 0; same && i < buffer.count(); ++i) {
    const double want = maths::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    same = std::abs(value_at(buffer, i) - want) <= 0.01 * want; // bfloat16 has 8 bits
  }
  if (!same)
    to.warn(fmt::format("{} is not what rope_base {} gives for {} dimensions: skipped, as in "
                        "Transformers, which computes the frequencies",
                        to.source_of(name), base, dims));
}

} // namespace mha::naming
