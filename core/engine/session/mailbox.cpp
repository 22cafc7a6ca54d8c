// Two locks, so that a window that takes an observation never waits for the worker's commands.
#include "core/engine/session/mailbox.h"

#include <chrono>

namespace afterglow {

void Mailbox::send(Command command) {
  const std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(command));
  wake_.notify_all();
}

void Mailbox::request(AnalysisSet analyses) {
  const std::lock_guard lock(mutex_);
  if (requested_ == analyses) return;
  requested_ = analyses;
  wake_.notify_all();
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  wake_.notify_all();
}

std::shared_ptr<const Observation> Mailbox::take() {
  const std::lock_guard lock(slot_mutex_);
  is_taken_ = true;
  return slot_;
}

Mailbox::Delivery Mailbox::receive(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, most, [this] { return has_come(); });
  delivered_ = requested_;
  Delivery delivery{is_closed_, requested_, {}};
  delivery.commands.swap(inbox_);
  return delivery;
}

void Mailbox::publish(std::shared_ptr<const Observation> fresh, std::uint64_t commands) {
  {
    const std::lock_guard lock(slot_mutex_);
    slot_.swap(fresh);
    is_taken_ = false;
  }
  taken_commands_ =
      commands;  // after the observation: a reader of the count then finds at least as many commands in it
  ++revision_;
  if (on_publish_) on_publish_();
}

}  // namespace afterglow
