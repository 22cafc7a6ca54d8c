// In the place of accessible_window.cpp where the bridge to AT-SPI is missing.
#include "app/window/accessibility/accessible_window.h"

namespace afterglow {

struct AccessibleWindow::Parts {};

AccessibleWindow::AccessibleWindow(const std::string&) {}
AccessibleWindow::~AccessibleWindow() = default;
void AccessibleWindow::serve() {}
bool AccessibleWindow::is_heard() const { return false; }
void AccessibleWindow::show(const std::vector<SpokenPanel>&) {}
void AccessibleWindow::focus(const std::string&) {}
void AccessibleWindow::announce(const std::string&) {}

}  // namespace afterglow
