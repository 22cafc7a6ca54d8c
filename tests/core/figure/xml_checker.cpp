// The checker: names, nesting, attributes, entities, characters; no doctypes, which figures never have.
#include "tests/core/figure/xml_checker.h"

#include <set>

#include "core/figure/files/xml_text.h"

namespace afterglow {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  XmlReport read() {
    try {
      read_document();
    } catch (const Fault& fault) {
      report_.error = fault.what;
    }
    return report_;
  }

 private:
  struct Fault {
    std::string what;
  };

  [[noreturn]] static void fail(const std::string& what) { throw Fault{what}; }

  void read_document() {
    if (!is_xml_text(rest_)) fail("a character that XML forbids");
    if (rest_.starts_with("<?xml ")) rest_.remove_prefix(std::min(rest_.find("?>") + 2, rest_.size()));
    bool has_root = false;
    while (!rest_.empty()) {
      if (rest_.front() != '<') {
        read_text();
      } else if (rest_.starts_with("</")) {
        read_end();
      } else {
        if (open_.empty() && has_root) fail("two roots");
        has_root = true;
        read_start();
      }
    }
    if (!open_.empty()) fail("an element is not closed: " + report_.elements[open_.back()].name);
    if (!has_root) fail("no root");
  }

  std::string read_name() {
    std::size_t n = 0;
    while (n < rest_.size() &&
           (isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '-' || rest_[n] == ':' || rest_[n] == '_'))
      ++n;
    const std::string name(rest_.substr(0, n));
    rest_.remove_prefix(n);
    if (name.empty() || isdigit(static_cast<unsigned char>(name[0]))) fail("a name is missing");
    return name;
  }

  void skip_spaces() {
    while (!rest_.empty() && isspace(static_cast<unsigned char>(rest_.front()))) rest_.remove_prefix(1);
  }

  void read_text() {
    const auto end = std::min(rest_.find('<'), rest_.size());
    const auto text = xml_unescaped(rest_.substr(0, end));
    if (!text || rest_.substr(0, end).find("]]>") != std::string_view::npos) fail("a broken entity in text");
    const bool is_blank = text->find_first_not_of(" \n\r\t") == std::string::npos;
    if (open_.empty() && !is_blank) fail("text outside the root");
    if (!open_.empty()) report_.elements[open_.back()].text += *text;
    rest_.remove_prefix(end);
  }

  void read_end() {
    rest_.remove_prefix(2);
    const std::string name = read_name();
    skip_spaces();
    if (open_.empty() || report_.elements[open_.back()].name != name) fail("</" + name + "> closes nothing");
    if (!rest_.starts_with('>')) fail("an end tag is broken");
    rest_.remove_prefix(1);
    open_.pop_back();
  }

  void read_start() {
    rest_.remove_prefix(1);
    XmlElement element;
    element.name = read_name();
    if (!open_.empty()) {
      element.parent = report_.elements[open_.back()].name;
      element.group = report_.elements[open_.back()].group;
    }
    for (skip_spaces(); !rest_.empty() && rest_.front() != '>' && rest_.front() != '/'; skip_spaces())
      read_attribute(element);
    const bool is_empty = rest_.starts_with("/>");
    if (!is_empty && !rest_.starts_with('>')) fail("a start tag is broken");
    rest_.remove_prefix(is_empty ? 2 : 1);
    if (const auto id = element.attributes.find("id"); id != element.attributes.end()) {
      element.group = id->second;
      if (!ids_.insert(id->second).second) fail("two elements have the id " + id->second);
    }
    report_.elements.push_back(element);
    if (!is_empty) open_.push_back(report_.elements.size() - 1);
  }

  void read_attribute(XmlElement& element) {
    const std::string name = read_name();
    if (!rest_.starts_with("=\"")) fail("an attribute has no value");
    rest_.remove_prefix(2);
    const auto end = rest_.find('"');
    if (end == std::string_view::npos) fail("an attribute does not end");
    const auto value = xml_unescaped(rest_.substr(0, end));
    if (!value || value->find('<') != std::string::npos) fail("a broken value");
    if (!element.attributes.emplace(name, *value).second) fail("an attribute twice");
    rest_.remove_prefix(end + 1);
  }

  std::string_view rest_;
  std::vector<std::size_t> open_;
  std::set<std::string> ids_;
  XmlReport report_;
};

}  // namespace

XmlReport check_xml(std::string_view text) { return Reader(text).read(); }

}  // namespace afterglow
