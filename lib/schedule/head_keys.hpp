#pragma once
// Keys and values of each batch item and key/value head, prepared for the products of its
// attention.

#include <mha/kernels/packed.hpp>
#include <mha/schedule/memory.hpp>
#include <mha/schedule/routines.hpp>

#include <vector>

namespace mha {

/// A head's keys or values in the order of S_all: one matrix, or two, the earlier ones where they
/// were given, and the others.
template <class T> struct KeyRows {
  PackedMatrix<T> earlier, others;
  std::size_t past = 0; ///< how many are earlier
};

/// One head's keys and values, which every block of every query head that shares them reads.
template <class T> struct HeadKeys {
  KeyRows<T> k, v;
  bool finite = true; ///< no value is NaN or infinite, so a weight of zero really adds nothing

  /// s = q kᵀ over the keys from `first` on, as many as s has columns.
  void product_with_keys(Matrix<const T> q, std::size_t first, Matrix<T> s) const;
  /// z = α v, or z += α v, over the keys from `first` on, as many as α has columns.
  void product_with_values(Matrix<const T> weights, std::size_t first, Matrix<T> z,
                           bool accumulate) const;
};

/// The keys and values of all heads.
template <class T> class AllKeys {
public:
  AllKeys(const Layer& layer, const Plan& plan, const TokenStages<T>& tokens,
          const Routines& scoring, const Routines& weighing)
      : layer_(layer), plan_(plan), tokens_(tokens), scoring_(scoring), weighing_(weighing) {}

  /// Reads earlier keys (k_all) or values (v_all) where they were given, if no product reads a copy
  /// and nothing else reads them. Whether it does: then `all` needs no rows of them.
  bool take_past(Stage all, const Tensor& past);
  /// Packs what the plan's heads read, of keys and values that are computed.
  void prepare(const StageSet& computed, std::size_t threads);
  const HeadKeys<T>& of(std::size_t batch, std::size_t head) const;
  /// Lets go of all.
  void release() { keys_.clear(), k_past_ = v_past_ = {}; }

private:
  HeadKeys<T> of_head(std::size_t batch, std::size_t kv, const StageSet& computed) const;
  bool leaves_keys_out(std::size_t batch) const;

  const Layer& layer_;
  const Plan& plan_;
  const TokenStages<T>& tokens_;
  const Routines &scoring_, &weighing_;
  Tensor k_past_, v_past_; ///< those that are read where they were given
  std::vector<HeadKeys<T>> keys_;
};

} // namespace mha
