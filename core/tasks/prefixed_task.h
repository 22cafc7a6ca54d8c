// A task whose sequences begin with blank positions: places for the memory tokens of a model.
#pragma once
#include <memory>

#include "core/tasks/task.h"

namespace afterglow {

/// The sequences of `inner` after `places` positions without targets that count as context, so that layers with a mask
/// read the memory tokens.
class PrefixedTask final : public Task {
 public:
  PrefixedTask(std::shared_ptr<const Task> inner, int places)
      : Task(inner->name(), inner->vocab(), inner->length() + places), inner_(std::move(inner)), places_(places) {}

  int places() const { return places_; }
  std::string describe() const override {
    return inner_->describe() + " · behind " + std::to_string(places_) + " memory tokens";
  }
  int max_answers() const override { return inner_->max_answers(); }
  std::string token_label(int token) const override { return inner_->token_label(token); }
  TokenRole token_role(int token) const override { return inner_->token_role(token); }
  std::string token_text(int token) const override { return inner_->token_text(token); }
  std::vector<int> tokens_of(const std::string& text) const override { return inner_->tokens_of(text); }
  const Tokenizer* tokenizer() const override { return inner_->tokenizer(); }
  void generate(Random& random, std::uint64_t turn, Split split, Example& out) const override;

 private:
  std::shared_ptr<const Task> inner_;
  int places_;
};

}  // namespace afterglow
