#pragma once
// --against: the stages of another implementation.

#include "options.hpp"
#include <mha/compare/coverage.hpp>
#include <mha/compare/reference.hpp>
#include <mha/compare/same_text.hpp>
#include <mha/render/text.hpp>

namespace mha::app {

/// Declares --against REF, which may be given again.
void add_against(Cli& cli, std::vector<std::string>& against);
/// Throws UsageError where it was not given to this command.
void require_against(std::string_view command, const std::vector<std::string>& against);

/// open_model. A model's layers that are left without an input are computed for the tokens that the
/// reference has (input_ids), which `request` has then and a note says; where it has none, the
/// error says --text and --ids.
OpenedModel open_compared(RunRequest& request, const std::vector<std::string>& against,
                          Common& common);

/// What the layers are of, where a text makes their inputs; else nothing.
std::optional<WholeModelOfLayer> whole_model_of(const OpenedModel& model);

/// Leaves of a reference what is of the text that the layers are computed for, and says so (unless
/// `common.quiet`). Throws Error where it is of another text.
SameText require_same_text(const OpenedModel& opened, const ReferenceFiles& against,
                           const Common& common);

/// Throws Error where several layers are compared and a stage of the reference says of none of them
/// which it is: each would be compared with it.
void require_layer_of_stages(const ReferenceFiles& against, std::size_t layers);

/// The reference for one layer, read in every way that the numbers leave open, the best first:
/// settled(). `model`: the whole model that the layer is of. A reference that is a layer itself is
/// computed.
std::vector<Reference> load_readings(const LoadedLayer& loaded, const ReferenceFiles& against,
                                     Common& common, const WholeModelOfLayer* model = nullptr);
/// The notes of a reading go to standard error unless `notes` is false, what was not compared
/// unless `warnings` is; with --strict a doubt is an error.
void report_reading(const Reference& reference, Common& common, bool notes, bool warnings = true);
/// The reference for one layer, in which each name has one meaning: its notes go to standard error
/// unless `notes` is false; with --strict the first one is an error. `model`: the whole model that
/// the layer is of.
Reference load_reference(const LoadedLayer& loaded, const ReferenceFiles& against, Common& common,
                         bool notes, const WholeModelOfLayer* model = nullptr,
                         bool warnings = true);

/// ", but …": the first of what was not compared, for a message; or "".
std::string what_is_left(const Coverage& coverage);
/// "compared: …; not compared: …; passed over: …", wrapped, below a verdict on a whole model.
std::string coverage_text(const Coverage& coverage, const render::TextStyle& text_style);

/// " --against REF …", for a command line that a reader can copy.
std::string retyped_against(const std::vector<std::string>& against);

} // namespace mha::app
