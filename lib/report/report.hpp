#pragma once
// The data that a page shows of a layer, gathered while the layer is computed.

#include <mha/heads/measures.hpp>
#include <mha/observe/hidden_keys.hpp>
#include <mha/observe/packing.hpp>

#include <map>

namespace mha {

class HeadMeasuring;

/// How much of a layer a report may keep.
struct ReportRequest {
  std::size_t batch = 0; ///< the batch item
  Selection selection;   ///< heads
  /// Packed bytes that the rows and numbers of the layer may take.
  std::size_t limit = std::size_t{18} << 20;
  /// Unpacked bytes up to which every stage is kept exactly; above, only `weights`.
  std::size_t all_exact = std::size_t{300} << 10;
  std::size_t threads = 0;
  ComputeLayer compute = mha::compute; ///< how the layer is computed
};

/// A head's contribution to the output, query by query.
struct HeadContribution {
  std::vector<float> norm; ///< ‖head_result‖: T
  std::vector<float> share; ///< head_result · output / ‖output‖²: T; NaN where the output is zero
};

/// The experts that each token chose, the largest weight first.
struct TokenExperts {
  std::vector<std::size_t> numbers; ///< T · n
  std::vector<float> weights;       ///< T · n
};

/// A number of each head that was measured elsewhere: its effect on the prediction.
struct HeadNumbers {
  std::string name, text;                      ///< "kl", and a description
  std::vector<std::optional<double>> of_heads; ///< one a chosen head
};

/// Plain data: a page needs no layer.
struct LayerReport {
  std::string id; ///< "1", or ""
  std::optional<std::size_t> batch;
  DType dtype = DType::f32;
  Dims dims;
  Settings settings;
  double scale = 1;
  std::vector<float> temperatures; ///< of each query; empty: all 1
  bool has_b_q = false, has_W_o = false, has_sinks = false; ///< for the formulas
  std::string result_formula; ///< "head_result = head_out W_o[h]", with the steps between
  StageSet given;                                           ///< stages that are given, not computed
  std::string headline;                  ///< "4 heads × 16 · T 33 · float32 · causal"
  std::vector<std::size_t> heads;        ///< the chosen ones
  std::vector<std::size_t> kv_of;        ///< each head's place in the stages of keys and values
  std::vector<std::string> tokens, keys; ///< T and S_all labels; tokens may be empty
  /// The packed rows by their names on the page: "weights", "masked", "scores", "q", "k", "v",
  /// "head_out". q, k and v are the forms that scores and head_out read. If the weights do not fit,
  /// they are the largest of each row, with "pooled": the map in fewer cells, each the largest of
  /// its pool.
  std::map<std::string, PackedStage, std::less<>> stages;
  std::map<std::string, Stage, std::less<>> forms; ///< the stages of these names
  /// The keys that each query may attend to. Empty if no key is hidden, or if the keys are not one
  /// run that all heads share; in that case `stages` has their bits as "hidden", if they fit.
  std::vector<HiddenKeys::KeyRange> visible;
  std::vector<HeadContribution> contributions; ///< one a head, or none
  std::vector<float> output_norm;              ///< T, or empty
  TokenExperts experts;                        ///< of a layer with a mixture; else empty
  std::vector<HeadMeasures> measures;          ///< one a head
  std::vector<HeadNumbers>
      effects;      ///< shown beside them, with the same names in every layer of a page
  Message overflow; ///< where numbers left their type's range, in words, or ""
};

/// Computes a layer once, and keeps and measures the data of its page. Long maps are only kept
/// packed. Throws Error if the layer has no weights, or not even the largest of each row fit.
LayerReport report(const Layer& layer, const ReportRequest& request);

/// The heads' contributions. head_result is compared with the output, so this is a second pass; it
/// starts at stages that the first one kept, and also measures the heads.
std::vector<HeadContribution> contributions_of(const Layer& layer,
                                               const std::vector<std::size_t>& heads,
                                               const ReportRequest& request,
                                               HeadMeasuring& measuring, const Tensor* output);

/// The norms of a batch item's rows in a kept stage.
std::vector<float> row_norms(const Tensor& kept, std::size_t batch);

} // namespace mha
