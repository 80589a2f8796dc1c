#pragma once
// A list that a signal handler may walk while threads add to it and take from it.

#include <atomic>

namespace mha::io {

/// Pointers to things that their owners add and take back. No locks and no memory are needed to
/// walk it; places are used again and never given back.
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
    auto* place = new Place; // NOLINT(bugprone-*): the list is there to the end
    place->thing = thing;
    place->next = first_;
    while (!first_.compare_exchange_weak(place->next, place)) {
    }
    return *place;
  }
  /// The thing, for the first of two, its owner and a handler; nullptr for the other.
  static T* take(Place& place) { return place.thing.exchange(nullptr); }

  template <class Do> void for_each(const Do& work) {
    for (Place* place = first_; place; place = place->next) work(*place);
  }

private:
  std::atomic<Place*> first_ = nullptr;
};

} // namespace mha::io
