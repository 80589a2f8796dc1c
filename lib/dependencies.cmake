# What the library is built from. The build includes this, and so does the package that
# find_package(mha) finds: a program that links the static library links these too.
include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(Threads)
find_dependency(ZLIB)
find_dependency(PNG)

# Debian's dnnl-config.cmake wants OpenCL's headers, which a product on the CPU has no use for.
if(NOT TARGET mha::dnnl)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  add_library(mha::dnnl UNKNOWN IMPORTED)
  set_target_properties(mha::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}")
endif()
