#pragma once
// Rotary position embedding (Su et al. 2021).

#include <mha/layer/layer.hpp>
#include <mha/schedule/tokens.hpp>

namespace mha {

/// Cosines and sines of the rotary embedding for the tokens of one sequence: rows × pairs.
template <class T> struct RotaryTable {
  std::vector<T> cosines, sines;
  std::size_t pairs = 0;
};
/// The table for `rows` tokens that start at `first` (positions of the layer, if it has any, win).
/// Frequencies, and what multiplies cosines and sines: rotary_kinds.hpp.
template <class T>
RotaryTable<T> rotary_table(const Layer& layer, std::size_t rows, std::int64_t first);

/// Rotates the first `dims` of the `n` elements of a head by the angles position · frequency_i,
/// whose cosines and sines are given (dims / 2 each); the others pass through. Su et al. 2021.
/// half: pairs (i, i + dims/2), as GPT-NeoX and LLaMA in Hugging Face's layout;
/// interleaved: pairs (2i, 2i + 1), as GPT-J and the paper.
template <class T> void rotate(const T* x, const T* cosines, const T* sines, std::size_t n,
                               std::size_t dims, bool interleaved, T* out);

/// Rotary embedding as a step: the table is made before the first tokens, and dropped after.
template <class T> class Rotary : public RowOperator<T> {
public:
  explicit Rotary(const Layer& layer) : layer_(layer) {}

  void prepare(const Usage& usage) override;
  void release() override { tables_.clear(); }

  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Layer& layer_;
  std::vector<RotaryTable<T>> tables_; ///< one, or one a text where texts of a batch turn otherwise
};

} // namespace mha
