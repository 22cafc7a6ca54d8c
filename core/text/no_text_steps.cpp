// Stands in for regex.cpp and text_steps.cpp in builds without PCRE2 or utf8proc.
#include "core/io/error.h"
#include "core/text/text_steps.h"

namespace afterglow {
namespace {

[[noreturn]] void throw_missing() {
  throw BadInput(
      "this build reads no tokenizer.json: install libpcre2-dev and libutf8proc-dev and build again, or give "
      "numbers of tokens");
}

}  // namespace

Regex::Regex(const std::string&) { throw_missing(); }
std::vector<TextRange> Regex::matches(std::string_view) const { throw_missing(); }
std::vector<TextRange> TextSplit::parts(std::string_view) const { throw_missing(); }
std::vector<TextStep> read_normalizer(const nlohmann::json&) { throw_missing(); }
std::vector<TextStep> read_pre_tokenizer(const nlohmann::json&) { throw_missing(); }
std::vector<DecoderStep> read_decoder(const nlohmann::json&) { throw_missing(); }

}  // namespace afterglow
