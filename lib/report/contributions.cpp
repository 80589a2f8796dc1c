#include <mha/report/report.hpp>

#include <mha/heads/measuring.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// A number of a kept stage (B, T, width), as double.
double number_at(const Tensor& kept, std::size_t batch, std::size_t t, std::size_t i) {
  return value_at(kept, (batch * kept.shape()[1] + t) * kept.shape()[2] + i);
}

/// Computes norms of the heads' results, and their shares along the output.
class Contributions : public Observer {
public:
  Contributions(const Layer& layer, std::vector<std::size_t> heads, std::size_t batch,
                const Tensor* output)
      : heads_(std::move(heads)), batch_(batch), output_(output) {
    const std::vector<float> unknown(layer.dims.T, std::numeric_limits<float>::quiet_NaN());
    parts_.assign(heads_.size(), {unknown, output ? unknown : std::vector<float>()});
  }
  StageSet wants() const override { return StageSet{Stage::head_result}; }
  void observe(const Slice& block) override {
    const auto place = std::find(heads_.begin(), heads_.end(), block.head);
    if (block.batch != batch_ || place == heads_.end()) return;
    HeadContribution& part = parts_[static_cast<std::size_t>(place - heads_.begin())];
    const Tensor values = copy_of(block.values);
    const std::size_t n = values.shape()[1], d = values.shape()[2];
    for (std::size_t t = 0; t < n; ++t) {
      double square = 0, along = 0, whole = 0;
      for (std::size_t i = 0; i < d; ++i) {
        const double value = value_at(values, t * d + i);
        const double out = output_ ? number_at(*output_, batch_, block.token + t, i) : 0;
        square += value * value, along += value * out, whole += out * out;
      }
      part.norm[block.token + t] = static_cast<float>(std::sqrt(square));
      if (output_ && whole > 0) part.share[block.token + t] = static_cast<float>(along / whole);
    }
  }
  std::vector<HeadContribution> take() { return std::move(parts_); }

private:
  std::vector<std::size_t> heads_;
  std::size_t batch_;
  const Tensor* output_; ///< B, T, d_out
  std::vector<HeadContribution> parts_;
};

} // namespace

std::vector<HeadContribution> contributions_of(const Layer& layer,
                                               const std::vector<std::size_t>& heads,
                                               const ReportRequest& request,
                                               HeadMeasuring& measuring, const Tensor* output) {
  Contributions parts(layer, heads, request.batch, output);
  Several both;
  both.add(parts);
  both.add(*measuring.second());
  const Plan plan = make_plan(measuring.rest(), both.wants(), measuring.selection());
  compute(measuring.rest(), plan, both, request.threads);
  return parts.take();
}

std::vector<float> row_norms(const Tensor& kept, std::size_t batch) {
  std::vector<float> norms;
  for (std::size_t t = 0; t < kept.shape()[1]; ++t) {
    double square = 0;
    for (std::size_t i = 0; i < kept.shape()[2]; ++i)
      square += number_at(kept, batch, t, i) * number_at(kept, batch, t, i);
    norms.push_back(static_cast<float>(std::sqrt(square)));
  }
  return norms;
}

} // namespace mha
