#pragma once
// --against: the stages of another implementation.

#include "options.hpp"
#include <mha/compare/diff.hpp>
#include <mha/compare/readings.hpp>

namespace mha::app {

/// Declares --against REF, which may be repeated.
void add_against(Cli& cli, std::vector<std::string>& against);
/// Throws UsageError if the command was not given one.
void require_against(std::string_view command, const std::vector<std::string>& against);

/// Opens the model as open_model() does. If its layers have no input, they are computed for the
/// token numbers stored in the reference (input_ids): these are added to `request`, and a note
/// names the file. Without such numbers the error suggests --text and --ids.
OpenedModel open_compared(RunRequest& request, const std::vector<std::string>& against,
                          Common& common);

/// The time that reading a reference takes, added to the command's sums on destruction.
class CommonEffort : public Effort {
public:
  explicit CommonEffort(Common& common) : Effort{common.threads}, common_(common) {}
  ~CommonEffort() { common_.read_s += read_s, common_.compute_s += compute_s; }
  CommonEffort(const CommonEffort&) = delete;
  CommonEffort& operator=(const CommonEffort&) = delete;

private:
  Common& common_;
};

/// Prints the notes of a reading if `notes`, and what was not compared if `warnings`, on standard
/// error. With --strict a doubt is an error.
void report_reading(const Reference& reference, Common& common, bool notes, bool warnings = true);

/// " --against REF …", for a command line to copy.
std::string retyped_against(const std::vector<std::string>& against);

/// Reads a layer's q, k and v in the other order of heads and tokens if their files leave the order
/// open (LoadedLayer::other_order) and the reference agrees with the other order, or is clearly
/// more similar to it. The axes are then added to `model` and `request`, and a note names them;
/// otherwise a note explains how to give them. `found` compares the layer in its current order;
/// null if the reference does not fit it. Returns whether the order was changed.
bool takes_other_order(OpenedModel& model, RunRequest& request, const LoadedLayer& loaded,
                       const Diff* found, const ReferenceFiles& against, Common& common);

} // namespace mha::app
