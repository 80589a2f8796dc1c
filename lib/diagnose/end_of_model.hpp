#pragma once
// Saved stages after a stream: of the layer that it enters, or of a model's end.

#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/some_tokens.hpp>

namespace mha {

/// Saved stages that show a stream (B, T, d_model), in the order of the computation.
class StreamView {
public:
  virtual ~StreamView() = default;
  virtual std::size_t stages() const = 0;
  virtual Stage stage(std::size_t i) const = 0;
  /// What rounding of the layers before may leave of stage i, relative to it.
  virtual double rounding(std::size_t i) const = 0;
  /// How stage i agrees after a stream, and under a change of what the stream enters (or null).
  virtual Agreement agreement(std::size_t i, const Tensor& stream, const Change* of_end) const = 0;
};

/// One saved stage of a model's end, and how far a stream after the last layer is from it.
class EndOfModel final : public StreamView {
public:
  /// `ends` as they are, of which `known` was saved.
  EndOfModel(const Layer& ends, const ReferenceStage& known, std::size_t threads);

  /// The same of a part alone.
  EndOfModel of(const EndSample& part) const;
  /// Those tokens, and logits that show what all would: a part that shows what changes of the
  /// stream do.
  EndSample part(std::vector<std::size_t> tokens) const;
  /// The same, computed by so many threads.
  EndOfModel on_threads(std::size_t threads) &&;
  /// How what was saved agrees with what the end makes of a stream, under a change of it or none.
  Agreement after(const Tensor& stream, const Change* of_end = nullptr) const;
  /// What the end makes of a stream, how that agrees, and how many times the difference between two
  /// of those takes the first to what was saved.
  Tensor shown(const Tensor& stream) const;
  Agreement of_shown(const Tensor& ours) const;
  double steps_between(const Tensor& here, const Tensor& there) const;
  /// Up to `most` tokens of every text whose rows were saved, from the first to the last.
  std::vector<std::size_t> saved_tokens(std::size_t most) const;

  std::size_t stages() const override { return 1; }
  /// Final or logits.
  Stage stage(std::size_t = 0) const override { return stage_; }
  double rounding(std::size_t = 0) const override { return rounding_; }
  Agreement agreement(std::size_t, const Tensor& stream, const Change* of_end) const override {
    return after(stream, of_end);
  }
  /// The short type that was saved; nothing: none.
  std::optional<DType> half() const { return half_; }
  /// Lets rounding leave what it makes of a stream, where that is more: `as_it_is` beside the one
  /// that was rounded behind every layer.
  void allow_rounding(const Tensor& as_it_is, const Tensor& rounded);
  /// The end as it is.
  const Layer& ends() const { return ends_; }

private:
  Layer ends_;
  Stage stage_;
  Tensor theirs_; ///< in the form of Layer::given
  double tolerance_ = 0, rounding_ = 0;
  std::optional<DType> half_ = {};
  std::size_t threads_;
};

/// What a layer hands on, in the form of Layer::given.
Tensor handed_on(const Layer& layer, std::size_t threads);
/// The layer on another stream, in row form and with a batch axis.
Layer on_stream(const Layer& layer, const Tensor& stream);
/// The stream that enters the first layer and what each hands on, rounded to a short type behind
/// each where one is given.
std::vector<Tensor> streams_through(const std::vector<Layer>& layers, const Tensor& stream,
                                    std::size_t threads, std::optional<DType> half = {});
/// Whether two layers' changes are the same.
bool is_same(const Change& a, const Change& b);

} // namespace mha
