#pragma once
// Predictions of a whole model as text.

#include <mha/model/predict.hpp>
#include <mha/render/table.hpp>
#include <mha/render/text.hpp>
#include <mha/render/tokens.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha::render {

struct PredictView {
  std::string form;     ///< one of `result_forms`
  bool all = false;     ///< one line per position, and the mean loss
  bool lens = false;    ///< of the stream of each layer
  bool batched = false; ///< several texts
  bool causal = true;
  /// The tokens of each text, by number.
  const std::vector<std::vector<int>>* ids = nullptr;
  std::optional<std::size_t> precision = {}; ///< significant digits of CSV and JSON; none: all
  std::vector<std::string> followed = {};    ///< "answer", "versus": tokens that are followed
};

/// The mean loss (−log probability of the actual next tokens) and their number: of the model's end,
/// or of the stream of the last layer.
class PredictionLoss {
public:
  void add(const Prediction& one);
  std::size_t tokens() const { return tokens_; }
  double mean() const { return sum_ / static_cast<double>(tokens_); }

private:
  double sum_ = 0;
  std::size_t tokens_ = 0;
  std::optional<std::size_t> last_;
};

/// Predictions as text, written while they come in, in the order of texts, positions and layers.
/// A table with one line per position keeps its rows to the end, since each may widen the columns.
class PredictionText {
public:
  PredictionText(PredictView view, TokenNames names, TextStyle text_style);
  /// Returns the text of these.
  std::string add(const std::vector<Prediction>& predictions);
  /// Returns the end of the text.
  std::string finish();

private:
  Table table_of_some(const std::vector<Prediction>& predictions) const;
  void add_block(const Prediction& one, std::string& out);
  void begin_json();
  void add_object(const Prediction& one);
  void add_json_token(int id);
  void add_json_followed(const Prediction& one);

  PredictView view_;
  TokenNames names_;
  TextStyle text_style_;
  std::vector<Prediction> kept_; ///< for a table with one line per position
  PredictionLoss loss_;
  TableStream rows_;
  JsonText json_;
  bool is_begun_ = false, is_first_ = true;
};

} // namespace mha::render
