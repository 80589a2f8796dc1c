#pragma once
// Contributions of a page's heads to its layer's output.

#include <mha/heads/measuring.hpp>
#include <mha/report/report.hpp>

namespace mha {

/// What the heads add. head_result needs the output beside it, so this is a second pass, which
/// starts at what the first one kept; the measures look on.
std::vector<HeadContribution> contributions_of(const Layer& layer,
                                               const std::vector<std::size_t>& heads,
                                               const ReportRequest& request,
                                               HeadMeasuring& measuring, const Tensor* output);

/// Lengths of a batch item's rows of a kept stage.
std::vector<float> row_norms(const Tensor& kept, std::size_t batch);

} // namespace mha
