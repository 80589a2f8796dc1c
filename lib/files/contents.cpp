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
  // Of equal names the first is found.
  std::ranges::stable_sort(*order, {},
                           [&](std::size_t i) { return std::string_view(tensors[i].name); });
  return order;
}

} // namespace

const Entry* Contents::find(std::string_view tensor) const {
  // Few are looked through at once. More are put in order, again if any came or went meanwhile:
  // readers only ever add or replace all.
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
