// What is typed: index lists, SOURCEs, values of settings, names of stages, as text.

#include "fuzz/expect.hpp"
#include <mha/layer/select.hpp>
#include <mha/layer/settings.hpp>
#include <mha/load/source.hpp>
#include <mha/naming/stage_names.hpp>

#include <set>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mha;
  if (size < 2) return 0;
  const std::size_t count = data[0] * std::size_t{17}, which = data[1];
  const std::string text(reinterpret_cast<const char*>(data + 2), size - 2);
  fuzz::expect_error_or_success([&] {
    const Pick pick = IndexList(text, "--query").resolve(count, "queries");
    std::set<std::size_t> seen;
    for (std::size_t index : pick.indices)
      fuzz::require(index < count && seen.insert(index).second, "positions in range, none twice");
    fuzz::require(!pick.drops_axis || pick.indices.size() == 1, "one position drops an axis");
  });
  fuzz::expect_error_or_success([&] { io::with_layer(io::parse_source(text), "3"); });
  fuzz::expect_error_or_success([&] { stage_named(text); });
  fuzz::expect_error_or_success([&] {
    Settings settings;
    const SettingInfo& info = settings_table()[which % settings_table().size()];
    set(settings, info.name, text, "--option");
    // The text that it is printed as means the same.
    const std::string told = info.get(settings);
    set(settings, info.name, told, "--option");
    fuzz::require(info.get(settings) == told, "a setting reads back what it prints");
  });
  return 0;
}
