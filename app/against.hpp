#pragma once
// --against: the stages of another implementation.

#include "options.hpp"
#include <mha/compare/reference.hpp>

namespace mha::app {

/// Declares --against REF, which may be given again.
void add_against(Cli& cli, std::vector<std::string>& against);
/// Throws UsageError where it was not given to this command.
void require_against(std::string_view command, const std::vector<std::string>& against);

/// The reference for one layer, read in every way that the numbers leave open, the best first:
/// settled(). `model`: the whole model that the layer is of.
std::vector<Reference> load_readings(const LoadedLayer& loaded,
                                     const std::vector<std::string>& against, Common& common,
                                     const WholeModelOfLayer* model = nullptr);
/// The notes of a reading go to standard error unless `notes` is false; with --strict a doubt is an
/// error.
void tell_reading(const Reference& reference, Common& common, bool notes);
/// The reference for one layer, in which each name has one meaning: its notes go to standard error
/// unless `notes` is false; with --strict the first one is an error. `model`: the whole model that
/// the layer is of.
Reference load_reference(const LoadedLayer& loaded, const std::vector<std::string>& against,
                         Common& common, bool notes, const WholeModelOfLayer* model = nullptr);

/// " --against REF …", for a command line that a reader can copy.
std::string retyped_against(const std::vector<std::string>& against);

} // namespace mha::app
