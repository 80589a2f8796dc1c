#include <mha/model/prediction_rows.hpp>

#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha {

std::vector<std::vector<double>>
prediction_rows(const Layer& ends, const std::vector<TextPosition>& places, std::size_t threads) {
  const ModelEnds& of = *ends.ends;
  std::vector<std::vector<double>> rows;
  Tensor values;
  std::map<std::size_t, std::size_t> row_of; // by position
  if (of.head.present() || of.final.present()) {
    const Stage stage = of.head.present() ? Stage::logits : Stage::final;
    for (const TextPosition& place : places) row_of.emplace(place.second, 0);
    std::string list;
    std::size_t count = 0;
    for (auto& [position, row] : row_of) {
      list += fmt::format("{}{}", count > 0 ? "," : "", position);
      row = count++;
    }
    Selection selection;
    selection.query = IndexList(list + (count == 1 ? "," + list : ""), "--query");
    values = trace(ends, {stage}, selection, threads).value(stage);
  } else {
    values = of.stream;
    for (std::size_t t = 0; t < ends.dims.T; ++t) row_of.emplace(t, t);
  }
  const std::size_t width = values.shape().back(), in_item = row_of.size();
  for (const auto& [batch, position] : places) {
    std::vector<double>& row = rows.emplace_back(width);
    const std::size_t first = (batch * in_item + row_of.at(position)) * width;
    const auto copy = [&](const auto& numbers) {
      for (std::size_t i = 0; i < width; ++i) row[i] = static_cast<double>(numbers[first + i]);
    };
    values.dtype() == DType::f64 ? copy(values.as<double>()) : copy(values.as<float>());
  }
  return rows;
}

std::vector<double> log_softmax(const std::vector<double>& logits) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double z : logits) sum += std::exp(z - max);
  std::vector<double> log_p(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) log_p[i] = logits[i] - max - std::log(sum);
  return log_p;
}

double divergence(const std::vector<double>& log_p, const std::vector<double>& log_q) {
  double kl = 0;
  for (std::size_t i = 0; i < log_q.size(); ++i)
    if (const double p = std::exp(log_p[i]); p > 0) kl += p * (log_p[i] - log_q[i]);
  return kl;
}

} // namespace mha
