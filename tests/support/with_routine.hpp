#pragma once
// One routine for float32 products of every size, until the end of the test.

#include <mha/kernels/bf16x3.hpp>
#include <mha/kernels/product.hpp>

#include <catch2/catch.hpp>

struct WithRoutine {
  explicit WithRoutine(mha::Routine routine) { mha::set_routine(routine); }
  ~WithRoutine() { mha::set_routine(std::nullopt); }
  WithRoutine(const WithRoutine&) = delete;
  WithRoutine& operator=(const WithRoutine&) = delete;
};

/// Whether products of split numbers can be tested; says so where they cannot.
inline bool splits_here() {
  if (!mha::bf16x3_available()) WARN("skipped: this machine has no AMX, or MHA_CPU forbids it");
  return mha::bf16x3_available();
}
