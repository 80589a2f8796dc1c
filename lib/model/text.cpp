#include <mha/model/text.hpp>

#include <mha/system/error.hpp>

namespace mha {

bool Text::given() const {
  const bool cut = !texts.empty() || !files.empty(), with_bos = special.bos.value_or(false);
  if (each_line && files.empty())
    fail("<each_line> is for the lines of a <text_file>: without one it changes nothing; leave it "
         "out, or give the text in a file");
  if (special.none && with_bos)
    fail("<bos> and <special false> contradict each other: the one adds what the other leaves out; "
         "one of them is to go");
  if (!cut && (special.none || special.bos))
    fail("{} changes nothing: {}; leave it out, or give <text>",
         special.none ? message("<special false>")
         : with_bos   ? message("<bos>")
                      : message("<bos false>"),
         ids.empty() ? "there is no text to cut" : message("<ids> are the tokens as they are"));
  return cut || !ids.empty() || !rows.empty();
}

} // namespace mha
