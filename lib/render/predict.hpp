#pragma once
// Predictions of a whole model as a table, CSV or JSON.

#include <mha/model/predict.hpp>
#include <mha/render/text.hpp>
#include <mha/render/tokens.hpp>

namespace mha::render {

struct PredictView {
  bool all = false;     ///< a line a position, and the mean loss
  bool batched = false; ///< several texts
  bool causal = true;
  /// The tokens of each text, by number.
  const std::vector<std::vector<int>>* ids = nullptr;
};

std::string predict_table(const std::vector<Prediction>& predictions, const PredictView& view,
                          const TokenNames& names, const TextStyle& look);
std::string predict_csv(const std::vector<Prediction>& predictions, const PredictView& view,
                        const TokenNames& names, char separator);
std::string predict_json(const std::vector<Prediction>& predictions, const PredictView& view,
                         const TokenNames& names);

} // namespace mha::render
