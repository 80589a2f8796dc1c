# Writes OUT, a file that compiles the test files SOURCES as one: what they include is
# read once, before them, and each is in a namespace of its own, so that their hidden names do not meet.
set(directives "")
set(files "")
foreach(source IN LISTS SOURCES)
  file(STRINGS ${source} lines REGEX "^#(include|if|elif|else|endif|define|undef)")
  list(JOIN lines "\n" lines)
  string(APPEND directives "${lines}\n")
  string(REGEX MATCH "[^/]+/[^/]+$" name ${source})
  string(MAKE_C_IDENTIFIER ${name} name)
  string(APPEND files "namespace ${name} {\n#include \"${source}\"\n}\n")
endforeach()
file(WRITE ${OUT} "${directives}\n${files}")
