#pragma once
// --against: the stages of another implementation.

#include "options.hpp"
#include <mha/compare/coverage.hpp>
#include <mha/compare/reference.hpp>
#include <mha/compare/same_text.hpp>
#include <mha/render/text.hpp>
#include <mha/system/effort.hpp>

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

/// Leaves of a reference what is of the text that the layers are computed for; the notes say so.
/// Throws Error where it is of another text.
SameText require_same_text(const OpenedModel& model, const ReferenceFiles& against);

/// Throws Error where several layers are compared and a stage of the reference says of none of them
/// which it is: each would be compared with it.
void require_layer_of_stages(const ReferenceFiles& against, std::size_t layers);

/// The reference for one layer, read in every way that the numbers leave open, the best first:
/// settled(). `model`: the whole model that the layer is of. A reference that is a layer itself is
/// computed.
std::vector<Reference> load_readings(const LoadedLayer& loaded, const ReferenceFiles& against,
                                     Effort& effort, const WholeModelOfLayer* model = nullptr);
/// What of a command's time reading a reference takes: added to its sums at the end.
class CommonEffort : public Effort {
public:
  explicit CommonEffort(Common& common) : Effort{common.threads}, common_(common) {}
  ~CommonEffort() { common_.read_s += read_s, common_.compute_s += compute_s; }
  CommonEffort(const CommonEffort&) = delete;
  CommonEffort& operator=(const CommonEffort&) = delete;

private:
  Common& common_;
};

/// The notes of a reading go to standard error unless `notes` is false, what was not compared
/// unless `warnings` is; with --strict a doubt is an error.
void report_reading(const Reference& reference, Common& common, bool notes, bool warnings = true);

/// "compared: …; not compared: …; passed over: …", wrapped, below a verdict on a whole model.
std::string coverage_text(const Coverage& coverage, const render::TextStyle& text_style);

/// " --against REF …", for a command line that a reader can copy.
std::string retyped_against(const std::vector<std::string>& against);

} // namespace mha::app
