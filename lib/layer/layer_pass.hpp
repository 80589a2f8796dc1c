#pragma once
// A layer on its way through a model: how often it was computed, and what it hands on to the next.

#include <mha/layer/layer.hpp>

#include <atomic>
#include <mutex>
#include <optional>

namespace mha {

/// How often layers were made of the files' tensors, and computed, since the files were opened.
struct LayerCounts {
  std::atomic<std::size_t> made = 0, computed = 0;
};

/// Of one layer with its input. Every computation of that very layer, whatever it was asked for,
/// also computes resid_post where the next layer begins with it, and leaves it here: so a layer is
/// computed once. Copies of a layer share this; one that was edited is another layer (is_of), whose
/// computations neither count nor hand on.
class LayerPass {
public:
  /// `hands_on`: something is computed from its resid_post.
  LayerPass(const Layer& layer, std::shared_ptr<LayerCounts> counts, bool hands_on);
  /// Of one item that was cut out of the layer (first_tokens.hpp): what is computed of it is told
  /// to the pass of the whole layer.
  LayerPass(std::shared_ptr<LayerPass> whole, const Layer& item);

  bool hands_on() const { return whole_ ? whole_->hands_on() : hands_on_; }

  /// Whether a layer has the numbers of the one that this was made for.
  bool is_of(const Layer& layer) const;
  /// Takes the first tokens of the layer (first_tokens.hpp) for the layer itself: a computation of
  /// them computes all of the texts that are no longer.
  void admit(const Layer& first_tokens);

  /// Whether a computation of these batch items has to hand on resid_post of some of them.
  bool needs(const Layer& layer, const std::vector<std::size_t>& items) const;
  /// Before that computation: its rows come one after the other.
  void begin(const Layer& layer, const std::vector<std::size_t>& items);
  /// Rows of resid_post. Called from several threads.
  void take(std::size_t item, std::size_t token, const ArrayView& rows);

  /// The items whose resid_post is not there.
  std::vector<std::size_t> missing() const;
  /// The layer, as long as some are missing; a copy without a pass.
  const Layer& layer() const { return *layer_; }
  /// resid_post of all items: B, T, d_model; zeros in the padding.
  const Tensor& handed_on() const { return resid_post_; }

  /// `blocks` blocks of `queries` queries each were computed of these stages.
  void count(const StageSet& computed, std::size_t blocks, std::size_t queries);

private:
  /// What tells a layer from an edited copy: which tensors it has, and its settings.
  struct Identity {
    std::vector<const void*> tensors;
    std::vector<std::size_t> numbers; ///< of lists: lengths of keys, places of masks
    std::string settings;
    Dims dims;
    StageSet given;
    bool operator==(const Identity&) const = default;
  };
  static Identity identity_of(const Layer& layer);
  bool computes_whole(const Layer& layer, std::size_t item) const;
  std::vector<std::size_t> of_whole(std::vector<std::size_t> items) const;

  std::shared_ptr<LayerPass> whole_; ///< of an item of it
  std::size_t first_item_ = 0;

  mutable std::mutex lock_; ///< of known_ and the counts
  std::vector<Identity> known_;
  std::vector<std::size_t> lengths_;
  Dims dims_;
  std::shared_ptr<LayerCounts> counts_;
  bool hands_on_;
  std::optional<Layer> layer_;
  Tensor resid_post_;
  std::vector<std::atomic<std::size_t>> rows_missing_; ///< of each item
  std::array<std::size_t, stage_count> blocks_done_{};
  std::size_t times_ = 0;
};

} // namespace mha
