#include "against.hpp"

#include "console.hpp"
#include "retype.hpp"
#include <mha/compare/settle.hpp>

#include <fmt/format.h>

namespace mha::app {

void add_against(Cli& cli, std::vector<std::string>& against) {
  Option option;
  option.name = "--against";
  option.value_name = "REF";
  option.help = "a file or folder of stages, or STAGE=FILE[:TENSOR][@AXES]; may be given again. "
                "Names of other tools are understood, tokens first and packed heads too";
  option.completes = Completes::files;
  option.repeats = true;
  option.set = [&against](const std::string& text) { against.push_back(text); };
  cli.add(std::move(option));
}

void require_against(std::string_view command, const std::vector<std::string>& against) {
  if (against.empty())
    throw UsageError(fmt::format("{} needs --against REF: a file or folder of another "
                                 "implementation's stages, or STAGE=FILE",
                                 command));
}

std::vector<Reference> load_readings(const LoadedLayer& loaded,
                                     const std::vector<std::string>& against, Common& common,
                                     const WholeModelOfLayer* model) {
  Reference reference = [&] {
    const Stopwatch watch(common.read_s);
    return read_reference(loaded.layer, against, loaded.id, model);
  }();
  const Stopwatch watch(common.compute_s);
  return settled(loaded.layer, std::move(reference), common.threads);
}

void tell_reading(const Reference& reference, Common& common, bool notes) {
  if (common.strict && !reference.doubts.empty())
    fail("--against: {} (an error by --strict)", reference.doubts[0]);
  const auto warn = [&](const std::vector<std::string>& names) {
    if (names.empty()) return;
    const std::string text = fmt::format("--against: not compared: {}", fmt::join(names, "; "));
    if (common.strict) fail("{} (an error by --strict)", text);
    if (!common.quiet) print_note(text, common.color, Severity::warning);
  };
  warn(reference.misshapen), warn(reference.misspelt);
  if (!common.quiet && notes)
    for (const std::string& note : reference.notes) print_note(note, common.color);
}

Reference load_reference(const LoadedLayer& loaded, const std::vector<std::string>& against,
                         Common& common, bool notes, const WholeModelOfLayer* model) {
  Reference reference = std::move(load_readings(loaded, against, common, model).front());
  tell_reading(reference, common, notes);
  return reference;
}

std::string retyped_against(const std::vector<std::string>& against) {
  std::string words;
  for (const std::string& source : against) words += " --against " + shell_word(source);
  return words;
}

} // namespace mha::app
