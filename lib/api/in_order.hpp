#pragma once
// Rows of a stage for a program: one call after the other, in the order of their places.

#include <mha/layer/layer.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/schedule/place.hpp>

#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace mha::api {

/// Hands rows out in the order of their places, whatever order they appear in. What comes early
/// waits here: a few blocks of a map, at most the whole of a stage with a row a token.
class InOrder : public Observer {
public:
  /// Of all rows that the layer's stage has, but those behind the end of a shorter text.
  InOrder(const Layer& layer, Stage stage, std::function<void(Place, Tensor)> use);

  StageSet wants() const override;
  void observe(const Slice& block) override;
  /// What is left once all is computed.
  void finish();

private:
  using Key = std::tuple<std::size_t, std::size_t, std::size_t>;
  void hand_out(Place place, Tensor rows);
  static Key key_of(const Place& place) { return {place.batch, place.head, place.token}; }
  Key next() const;

  Stage stage_;
  std::vector<std::size_t> lengths_; ///< of texts whose padding is not handed out
  std::vector<Place> places_;
  std::function<void(Place, Tensor)> use_;
  std::mutex lock_;
  std::map<Key, std::pair<Place, Tensor>> early_;
  std::size_t at_ = 0, done_ = 0; ///< the place that is next, and its tokens that are out
  bool stopped_ = false;          ///< by an exception
};

} // namespace mha::api
