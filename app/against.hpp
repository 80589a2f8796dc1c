#pragma once
// --against: the stages of another implementation.

#include "options.hpp"
#include <mha/compare/diff.hpp>
#include <mha/compare/readings.hpp>

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

/// " --against REF …", for a command line that a reader can copy.
std::string retyped_against(const std::vector<std::string>& against);

/// Reads a layer's q, k and v in the other order of heads and tokens, where their files leave it
/// open (LoadedLayer::other_order) and the reference agrees with that one, or points its way while
/// it does not point that of the layer as it is read. Then `model` and `request` have the axes, and
/// a note says them; else a note says how they may be given. `found`: how the layer compares as it
/// is read; null: the reference does not fit it. Returns whether the order was changed.
bool takes_other_order(OpenedModel& model, RunRequest& request, const LoadedLayer& loaded,
                       const Diff* found, const ReferenceFiles& against, Common& common);

} // namespace mha::app
