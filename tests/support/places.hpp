#pragma once
// Where the tests find the project and the program: known to one file, so that the others compile
// the same wherever the checkout is.

#include <string>

namespace mha::test {

/// The top of the checkout.
std::string source_folder();
/// The program under test; MHA_TEST_PROGRAM names another (replay/record.py).
std::string program_path();
/// Where it was built.
std::string build_folder();
/// The library that makes calls of the system fail (faults/shim.cpp).
std::string faults_path();
/// The library that copies the program at its start (matrix/starter.cpp); "" where another stands
/// for it.
std::string starter_path();

} // namespace mha::test
