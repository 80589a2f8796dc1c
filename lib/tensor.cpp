#include "tensor.hpp"
