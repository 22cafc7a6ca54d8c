// A small XML reader: says whether a document is well-formed and lists its elements.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace afterglow {

struct XmlElement {
  std::string name;
  std::string parent;
  std::map<std::string, std::string> attributes;
  std::string text;
  std::string group;  ///< id of the nearest enclosing element that has one, or its own
};

struct XmlReport {
  std::string error;  ///< empty: well-formed
  std::vector<XmlElement> elements;
};

XmlReport check_xml(std::string_view text);

}  // namespace afterglow
