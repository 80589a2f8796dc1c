# What the library is built from. The build includes this, and so does the package that
# find_package(mha) finds: a program that links the static library links these too.
include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(Threads)
find_dependency(ZLIB)
find_dependency(PNG)
