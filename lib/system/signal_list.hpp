#pragma once
// A list that a signal handler may traverse while threads add to it and remove from it.

#include <atomic>

namespace mha {

/// A list of pointers to objects that their owners add and remove. Traversal needs neither locks
/// nor memory. Places are reused and never freed.
template <class T> class SignalList {
public:
  struct Place {
    std::atomic<T*> thing = nullptr;
    Place* next = nullptr;
  };

  Place& add(T* thing) {
    for (Place* place = first_; place; place = place->next) {
      T* nothing = nullptr;
      if (place->thing.compare_exchange_strong(nothing, thing)) return *place;
    }
    auto* place = new Place; // NOLINT(bugprone-*): the list lives as long as the program
    place->thing = thing;
    place->next = first_;
    while (!first_.compare_exchange_weak(place->next, place)) {
    }
    return *place;
  }
  /// Removes the object and returns it. If its owner and a handler both call this, one gets
  /// nullptr.
  static T* take(Place& place) { return place.thing.exchange(nullptr); }

  template <class Do> void for_each(const Do& work) {
    for (Place* place = first_; place; place = place->next) work(*place);
  }

private:
  std::atomic<Place*> first_ = nullptr;
};

} // namespace mha
