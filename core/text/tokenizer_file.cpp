// Takes vocabulary and merges out of the parser's events, so that memory stays within a few times the file.
#include "core/text/tokenizer_file.h"

#include <functional>
#include <optional>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/terminal_text.h"

namespace afterglow {
namespace {

constexpr std::size_t largest_tokenizer = std::size_t{128} << 20;
constexpr int deepest = 64;

/// Decides for each event of the parser whether the value is kept, and takes the two lists itself.
class Collector {
 public:
  Collector(TokenizerFile& file, std::size_t bytes) : file_(file), left_(bytes / 8 + 1000) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if (depth >= deepest) throw BadInput("more than 64 lists and objects inside each other");
    if (event == Event::key && depth == 1) is_in_model_ = parsed == "model";
    if (event == Event::key && depth <= 2) list_ = depth == 2 && is_in_model_ ? parsed.get<std::string>() : "";
    const bool is_merge = list_ == "merges";
    if (depth < 3 || !(is_merge || list_ == "vocab")) {
      // Small values take many times their bytes in memory.
      if (event != Event::key && left_-- == 0) throw BadInput("there are too many small values in it");
      return true;
    }
    if (event == Event::key) token_ = parsed.get<std::string>();
    if (event == Event::value) return is_merge ? take_merge(depth, parsed) : take_token(depth, parsed);
    if (event == Event::array_end && is_merge) add_merge();
    return event == Event::array_start || event == Event::object_start;
  }

 private:
  /// Of an object the number of a token; of a list of [token, score] the token.
  bool take_token(int depth, const json& value) {
    const bool is_listed = !token_ && depth == 4 && value.is_string();
    if (!token_ && !is_listed) return false;
    const std::string token = is_listed ? value.get<std::string>() : *std::exchange(token_, std::nullopt);
    if (!is_listed && !(value.is_number_unsigned() && value <= INT32_MAX))
      throw BadInput("the number of the token \"" + terminal_text(token) + "\" is not from 0 to 2,147,483,647");
    file_.vocabulary.insert_or_assign(token, is_listed ? listed_++ : value.get<std::uint32_t>());
    return !is_listed;  // what has no key is not kept
  }

  bool take_merge(int depth, const json& value) {
    if (!value.is_string()) throw BadInput("a merge is not a text");
    const std::string& text = value.get_ref<const std::string&>();
    if (depth == 4) {
      parts_.push_back(text);
    } else if (!text.starts_with("#version")) {
      for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
        end = text.find(' ', begin);
        parts_.push_back(text.substr(begin, end - begin));
      }
      add_merge();
    }
    return false;
  }

  void add_merge() {
    if (parts_.size() != 2)
      throw BadInput("a merge has " + std::to_string(parts_.size()) + " parts, not two" +
                     (parts_.empty() ? "" : ": \"" + terminal_text(parts_[0].substr(0, 100)) + "\""));
    file_.merges.emplace_back(std::move(parts_[0]), std::move(parts_[1]));
    parts_.clear();
  }

  TokenizerFile& file_;
  std::size_t left_;  ///< values that may still be kept
  bool is_in_model_ = false;
  std::string list_;  ///< the field of the model that is being read
  std::optional<std::string> token_;
  std::vector<std::string> parts_;
  std::uint32_t listed_ = 0;
};

void leave_out_nulls(json& value) {
  for (auto item = value.begin(); value.is_object() && item != value.end();)
    item = item->is_null() ? value.erase(item) : std::next(item);
  if (!value.is_structured()) return;
  for (json& one : value) leave_out_nulls(one);
}

}  // namespace

const json& member(const json& object, const char* name) {
  static const json none;
  return object.contains(name) ? object.at(name) : none;
}

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  TokenizerFile file;
  const std::string bytes = read_file(path, largest_tokenizer);
  Collector collector(file, bytes.size());
  try {
    file.content = json::parse(bytes, std::ref(collector));
    leave_out_nulls(file.content);
    if (!member(member(file.content, "model"), "vocab").is_structured())
      throw BadInput("there is no vocabulary in it (\"model\", \"vocab\")");
  } catch (const std::exception& error) {
    const auto* syntax = dynamic_cast<const json::parse_error*>(&error);
    const std::string why =
        syntax == nullptr ? error.what() : "this is not JSON at byte " + std::to_string(syntax->byte);
    throw BadInput(path.string(), ": ", why, "; give the tokenizer.json of the model, or take it out of the folder");
  }
  return file;
}

}  // namespace afterglow
