#pragma once
// The saved stages that depend on a stream: those of the layer that it enters, or of the model's
// end.

#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/some_tokens.hpp>

namespace mha {

/// Saved stages that depend on a stream (B, T, d_model), in the order of the computation.
class StreamView {
public:
  virtual ~StreamView() = default;
  virtual std::size_t stages() const = 0;
  virtual Stage stage(std::size_t i) const = 0;
  /// The relative error that rounding in the earlier layers may cause in stage i.
  virtual double rounding(std::size_t i) const = 0;
  /// How stage i agrees if computed from a stream, optionally under a change of what the stream
  /// enters.
  virtual Agreement agreement(std::size_t i, const Tensor& stream, const Change* of_end) const = 0;
};

/// A saved stage of a model's end, compared with what the end computes from a stream.
class EndOfModel final : public StreamView {
public:
  /// `ends` without changes; `known` is the saved stage.
  EndOfModel(const Layer& ends, const ReferenceStage& known, std::size_t threads);

  /// The same restricted to a part.
  EndOfModel of(const EndSample& part) const;
  /// The part with these tokens and as many logits as suffice to show the effect of changes of the
  /// stream.
  EndSample part(std::vector<std::size_t> tokens) const;
  /// The same, computed by this many threads.
  EndOfModel on_threads(std::size_t threads) &&;
  /// How the end of a stream, optionally under a change of the end, agrees with the saved stage.
  Agreement after(const Tensor& stream, const Change* of_end = nullptr) const;
  /// The stage that the end computes from a stream, how such a value agrees, and the factor by
  /// which the difference between two of them must be multiplied to reach the saved value from the
  /// first.
  Tensor shown(const Tensor& stream) const;
  Agreement of_shown(const Tensor& ours) const;
  double steps_between(const Tensor& from, const Tensor& to) const;
  /// Up to `most` tokens, from first to last, whose rows were saved in every text.
  std::vector<std::size_t> saved_tokens(std::size_t most) const;

  std::size_t stages() const override { return 1; }
  /// Stage::final or Stage::logits.
  Stage stage(std::size_t = 0) const override { return stage_; }
  double rounding(std::size_t = 0) const override { return rounding_; }
  Agreement agreement(std::size_t, const Tensor& stream, const Change* of_end) const override {
    return after(stream, of_end);
  }
  /// The short type of the saved numbers, if any.
  std::optional<DType> half() const { return half_; }
  /// Raises the allowed rounding to the effect of rounding the stream after every layer:
  /// `unchanged` is the exact stream, `rounded` the rounded one.
  void allow_rounding(const Tensor& unchanged, const Tensor& rounded);
  /// The end without changes.
  const Layer& ends() const { return ends_; }

private:
  Layer ends_;
  Stage stage_;
  Tensor theirs_; ///< in the form of Layer::given
  double tolerance_ = 0, rounding_ = 0;
  std::optional<DType> half_ = {};
  std::size_t threads_;
};

/// The stream after a layer, in the form of Layer::given.
Tensor stream_after(const Layer& layer, std::size_t threads);
/// The layer on another stream, with tokens as rows and a batch axis.
Layer on_stream(const Layer& layer, const Tensor& stream);
/// The stream before the first layer and after each layer, rounded to `half` after each if given.
std::vector<Tensor> streams_through(const std::vector<Layer>& layers, const Tensor& stream,
                                    std::size_t threads, std::optional<DType> half = {});
/// Whether changes of two layers are the same change.
bool is_same(const Change& a, const Change& b);

} // namespace mha
