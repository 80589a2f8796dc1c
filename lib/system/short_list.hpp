#pragma once
// A list that allocates no memory while it is short.

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace mha {

/// Up to `room` elements are stored in the list itself.
template <class T, std::size_t room> class ShortList {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  ShortList() = default;
  ShortList(std::size_t n, const T& value) {
    resize(n);
    std::fill_n(data(), n, value);
  }
  ShortList(std::initializer_list<T> list) : ShortList(list.begin(), list.end()) {}
  ShortList(const T* first, const T* last) {
    resize(static_cast<std::size_t>(last - first));
    std::copy(first, last, data());
  }
  ShortList(const ShortList& other) : ShortList(other.begin(), other.end()) {}
  ShortList(ShortList&& other) noexcept : size_(other.size_), more_(std::move(other.more_)) {
    if (size_ <= room) std::copy_n(other.own_.data(), size_, own_.data());
    other.size_ = 0;
  }
  ShortList& operator=(ShortList other) noexcept {
    size_ = other.size_, more_ = std::move(other.more_);
    if (size_ <= room) std::copy_n(other.own_.data(), size_, own_.data());
    return *this;
  }
  ~ShortList() = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ <= room ? own_.data() : more_.data(); }
  const T* data() const { return size_ <= room ? own_.data() : more_.data(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t at) { return data()[at]; }
  const T& operator[](std::size_t at) const { return data()[at]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void push_back(const T& value) {
    const T own = value; // `value` may be an element of this list
    resize(size_ + 1);
    back() = own;
  }
  /// Removes the elements for which `is_out` is true.
  template <class Out> void remove(Out is_out) {
    resize(static_cast<std::size_t>(std::remove_if(begin(), end(), is_out) - begin()));
  }

private:
  /// New elements are not set.
  void resize(std::size_t n) {
    if (n > room) {
      if (size_ <= room) more_.assign(own_.data(), own_.data() + size_);
      more_.resize(n);
    } else if (size_ > room) {
      std::copy_n(more_.data(), n, own_.data());
      more_.clear();
    }
    size_ = n;
  }

  std::size_t size_ = 0;
  std::array<T, room> own_;
  std::vector<T> more_; ///< all elements if there are more than `room`
};

} // namespace mha
