#pragma once
// Changes of a layer as a model's end shows them, and the best that explains it.

#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/some_tokens.hpp>

namespace mha {

/// What is seen at the end, and how far a stream behind the last layer is from it.
class EndOfModel {
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
  /// How what was saved agrees with what the end makes of a stream (B, T, d_model).
  Agreement behind(const Tensor& stream) const;
  /// The same under a change of the end itself.
  Agreement behind(const Tensor& stream, const Change& change) const;
  /// What the end makes of a stream, how that agrees, and how many times the difference between two
  /// of those takes the first to what was saved.
  Tensor shown(const Tensor& stream) const;
  Agreement of_shown(const Tensor& ours) const;
  double steps_between(const Tensor& here, const Tensor& there) const;
  /// Up to `most` tokens of every text whose rows were saved, from the first to the last.
  std::vector<std::size_t> saved_tokens(std::size_t most) const;

  /// Which of the end's stages it is: final or logits.
  Stage stage() const { return stage_; }
  /// What rounding of the layers before may leave, relative to the stage.
  double rounding() const { return rounding_; }
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

/// Whether a change explains the end. Rounding grows through the layers: what is left must be small
/// beside what was there.
bool explains_end(const Agreement& before, const Agreement& after, double rounding);

/// Whether it may, where some of the tokens are looked at: it is tried on all of them.
bool may_explain(const Agreement& before, const Agreement& after, double rounding);

/// The best of what explains, as a diagnosis.
class BestCause {
public:
  /// `before`: how the end agrees as the model is.
  BestCause(const EndOfModel& end, Agreement before) : end_(end), before_(std::move(before)) {}

  /// Notes changes, the first of which names them, and the stream behind the last layer, or how the
  /// end agrees, under them.
  void take(const Change& change, const Tensor& stream) { take(std::vector{change}, stream); }
  void take(const std::vector<Change>& changes, const Tensor& stream) {
    take(changes, end_.behind(stream));
  }
  void take(const std::vector<Change>& changes, const Agreement& after);

  bool is_found() const { return best_.has_value(); }
  const Agreement& before() const { return before_; }
  std::optional<Diagnosis> found() { return std::move(best_); }

private:
  void also(const std::string& id);

  const EndOfModel& end_;
  Agreement before_;
  std::optional<Diagnosis> best_;
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
