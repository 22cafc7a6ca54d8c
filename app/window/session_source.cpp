// The session behind the window.
#include <utility>

#include "app/window/observation_source.h"

namespace afterglow {

namespace {

class SessionSource final : public ObservationSource {
 public:
  SessionSource(const std::string& recipe, const SessionOptions& options) : session_(recipe, options) {}
  void send(Command command) override { session_.send(std::move(command)); }
  std::shared_ptr<const Observation> observe() override { return session_.observe(); }
  std::uint64_t revision() override { return session_.revision(); }
  std::uint64_t taken_commands() override { return session_.taken_commands(); }
  void ask(AnalysisSet analyses) override { session_.request_analyses(analyses); }

 private:
  Session session_;
};

}  // namespace

std::unique_ptr<ObservationSource> start_session(const std::string& recipe, const SessionOptions& options) {
  return std::make_unique<SessionSource>(recipe, options);
}

}  // namespace afterglow
