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

/// Passes rows to a function in the order of their places, whatever order they are computed in.
/// Early rows are kept here: a few blocks of a map, at most a whole stage with one row per token.
class InOrder : public Observer {
public:
  /// Passes every row of the layer's stage except the padding after a shorter text.
  InOrder(const Layer& layer, Stage stage, std::function<void(Place, Tensor)> use);

  StageSet wants() const override;
  void observe(const Slice& block) override;
  /// Passes the rows that are left once all is computed.
  void finish();

private:
  using Key = std::tuple<std::size_t, std::size_t, std::size_t>;
  void deliver(Place place, Tensor rows);
  static Key key_of(const Place& place) { return {place.batch, place.head, place.token}; }
  Key next() const;

  Stage stage_;
  std::vector<std::size_t> lengths_; ///< of the texts; empty where the rows have no padding
  std::vector<Place> places_;
  std::function<void(Place, Tensor)> use_;
  std::mutex lock_;
  std::map<Key, std::pair<Place, Tensor>> early_;
  std::size_t at_ = 0, done_ = 0; ///< the next place, and how many of its tokens were passed
  bool stopped_ = false;          ///< by an exception
};

} // namespace mha::api
