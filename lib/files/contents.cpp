#include <mha/files/contents.hpp>

#include <mha/system/named.hpp>

#include <algorithm>
#include <mutex>
#include <numeric>

namespace mha::io {

namespace {

using Order = std::vector<std::size_t>;

std::shared_ptr<const Order> names_in_order(const std::vector<Entry>& tensors) {
  auto order = std::make_shared<Order>(tensors.size());
  std::iota(order->begin(), order->end(), std::size_t{0});
  // A stable sort, so that the first of equal names is found.
  std::ranges::stable_sort(*order, {},
                           [&](std::size_t i) { return std::string_view(tensors[i].name); });
  return order;
}

} // namespace

const Entry* Contents::find(std::string_view tensor) const {
  // A short list is searched directly. A longer one is sorted, and sorted again if its length has
  // changed: readers only add tensors or replace all of them.
  if (tensors.size() < 16) return find_named(tensors, tensor);
  std::shared_ptr<const Order> names;
  {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (!order || order->size() != tensors.size()) order = names_in_order(tensors);
    names = order;
  }
  const auto name_at = [&](std::size_t i) { return std::string_view(tensors[i].name); };
  const auto found = std::ranges::lower_bound(*names, tensor, {}, name_at);
  return found == names->end() || name_at(*found) != tensor ? nullptr : &tensors[*found];
}

} // namespace mha::io
