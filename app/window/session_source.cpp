// The session behind the window.
#include "app/window/observation_source.h"

#include <chrono>
#include <future>
#include <utility>
#include <vector>

namespace afterglow {

namespace {

class SessionSource final : public ObservationSource {
 public:
  SessionSource(const std::string& recipe, const SessionOptions& options)
      : starting_(
            std::async(std::launch::async, [recipe, options] { return std::make_unique<Session>(recipe, options); })) {
    auto nothing = std::make_shared<Observation>();
    nothing->title = "starting";
    placeholder_ = std::move(nothing);
  }

  void send(Command command) override {
    adopt();
    if (session_) {
      session_->send(std::move(command));
    } else {
      waiting_.push_back(std::move(command));
    }
  }

  std::shared_ptr<const Observation> observe() override {
    adopt();
    return session_ ? session_->observe() : placeholder_;
  }

  std::uint64_t revision() override {
    adopt();
    return session_ ? session_->revision() + 2 : revision_;
  }

 private:
  /// Takes the session over as soon as it is built.
  void adopt() {
    if (!starting_.valid() || starting_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    try {
      session_ = starting_.get();
      for (Command& command : waiting_) session_->send(std::move(command));
      waiting_.clear();
    } catch (const std::exception& error) {
      auto failed = std::make_shared<Observation>();
      failed->events.push_back({0, Severity::failure, std::string("the run could not start: ") + error.what()});
      placeholder_ = std::move(failed);
      revision_ = 1;
    }
  }

  std::future<std::unique_ptr<Session>> starting_;
  std::unique_ptr<Session> session_;
  std::vector<Command> waiting_;
  std::shared_ptr<const Observation> placeholder_;
  std::uint64_t revision_ = 0;
};

}  // namespace

std::unique_ptr<ObservationSource> start_session(const std::string& recipe, const SessionOptions& options) {
  return std::make_unique<SessionSource>(recipe, options);
}

}  // namespace afterglow
