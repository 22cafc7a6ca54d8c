// Copies and parts of tensors, and small tensors that a layer computes on the host for captures; never in a training
// step.
#pragma once
#include <span>

#include "core/autograd/tape.h"
#include "core/backend/host_numbers.h"

namespace afterglow {

/// A contiguous copy of columns of a wider tensor, valid until the tape begins anew.
Tensor gathered(Tape& tape, const Tensor& columns);
/// The rows [B,c] of the last token of x [B,T,c], in place.
Tensor last_token(const Tensor& x);
/// The numbers of a value; after the backward pass those of its gradient.
std::vector<double> to_host(Tape& tape, const Var& value);
std::vector<double> gradient_to_host(Tape& tape, const Var& value);
/// A tensor from host numbers, valid until the tape begins anew.
Tensor to_device(Tape& tape, const Shape& shape, DType dtype, std::span<const double> values);

}  // namespace afterglow
