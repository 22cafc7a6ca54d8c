// The parameter store's buffers, and start values.
#include "core/autograd/parameter.h"

#include <algorithm>

#include "core/backend/host_numbers.h"
#include "core/backend/parallel.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/random/random.h"
#include "core/tensor/bfloat.h"

namespace afterglow {
namespace {

constexpr std::int64_t weights_for_threads = 1'000'000;  // fewer are drawn before threads have begun
constexpr int max_threads = 8;
constexpr std::int64_t drawn_at_once = 1 << 16;  // numbers of a parameter, by one thread

/// FNV-1a: a parameter's random numbers depend on its name alone, so that adding one never changes another.
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

std::int64_t padded(std::int64_t elements) {
  return (elements + parameter_block - 1) / parameter_block * parameter_block;
}

Tensor slice(const Tensor& flat, const Parameter& parameter) {
  auto* address = flat.as<std::byte>() + parameter.offset * static_cast<std::int64_t>(size_of(flat.dtype));
  return Tensor(address, parameter.shape, flat.dtype);
}

/// The parameter whose name is the same from a scope "shared_weights" on: layers at several depths add it, and it
/// exists once, with the name that the first of them gave it.
Parameter* find_shared(std::deque<Parameter>& parameters, std::string_view name) {
  const std::size_t scope = name.find(".shared_weights.");
  if (scope == name.npos) return nullptr;
  return find_where(parameters, [&](const Parameter& p) { return p.name.ends_with(name.substr(scope)); });
}

/// The same numbers whatever the number of threads.
void draw_start(const Parameter& parameter, std::uint64_t seed, ThreadPool& pool, std::span<double> values) {
  const Initialiser& start = parameter.initialise;
  const auto count = static_cast<std::int64_t>(values.size());
  pool.for_ranges(count, start.words_each > 0 ? drawn_at_once : count, [&](std::int64_t begin, std::int64_t end) {
    Random random(seed, weights_stream, hash_of(parameter.name));
    random.skip(static_cast<std::uint64_t>(begin * start.words_each));
    start.fill(random, parameter.shape,
               values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  });
}

}  // namespace

ParameterStore::~ParameterStore() {
  for (const Tensor& buffer : {values_, gradients_, first_moments_, second_moments_, decay_mask_, rounded_}) {
    if (buffer.defined()) backend_->release(buffer.data);
  }
}

Parameter& ParameterStore::add(const std::string& name, const Shape& shape, Initialiser initialise) {
  if (values_.defined()) throw Error(ExitCode::failure, "parameter ", name, " comes after the buffers were reserved");
  if (Parameter* shared = find_shared(parameters_, name); shared != nullptr && shared->shape == shape) return *shared;
  if (find(name) != nullptr) throw Error(ExitCode::failure, "two parameters are called ", name);
  Parameter parameter;
  parameter.name = name;
  parameter.shape = shape;
  parameter.index = static_cast<int>(parameters_.size());
  if (!parameters_.empty()) parameter.offset = parameters_.back().offset + padded(parameters_.back().shape.elements());
  parameter.decay = shape.rank() >= 2;
  parameter.is_projection = shape.rank() == 2 && name.ends_with(".weight") && shape.last() % 8 == 0;
  parameter.initialise = std::move(initialise);
  parameters_.push_back(std::move(parameter));
  return parameters_.back();
}

std::int64_t ParameterStore::padded_count() const {
  return parameters_.empty() ? parameter_block
                             : parameters_.back().offset + padded(parameters_.back().shape.elements());
}

void ParameterStore::store_narrow(const std::function<bool(const Parameter&)>& wanted) {
  for (Parameter& parameter : parameters_) parameter.is_narrow = parameter.is_projection && wanted(parameter);
}

bool ParameterStore::is_narrow() const { return std::ranges::any_of(parameters_, &Parameter::is_narrow); }

std::int64_t ParameterStore::value_bytes(DType dtype) const {
  std::int64_t total = padded_count() * static_cast<std::int64_t>(size_of(dtype));
  for (const Parameter& parameter : parameters_)
    if (parameter.is_narrow) total -= padded(parameter.shape.elements()) * 2;  // of four bytes
  return total;
}

void ParameterStore::allocate_values(Backend& backend, DType dtype) {
  if (values_.defined()) throw Error(ExitCode::failure, "the parameters' buffers are reserved already");
  backend_ = &backend;
  values_ = backend.allocate_zeros(value_bytes(dtype) / static_cast<std::int64_t>(size_of(dtype)), dtype);
  auto* next = values_.as<std::byte>();
  for (Parameter& parameter : parameters_) {
    parameter.value = Tensor(next, parameter.shape, parameter.is_narrow ? DType::bf16 : dtype);
    next += padded(parameter.shape.elements()) * static_cast<std::int64_t>(size_of(parameter.value.dtype));
  }
}

void ParameterStore::allocate(Backend& backend, DType dtype) {
  if (gradients_.defined()) throw Error(ExitCode::failure, "the parameters' buffers are reserved already");
  if (is_narrow()) throw Error(ExitCode::failure, "a model whose weights are stored as bfloat16 cannot be trained");
  if (!values_.defined()) allocate_values(backend, dtype);
  const std::int64_t total = padded_count();
  for (Tensor* buffer : {&gradients_, &first_moments_, &second_moments_})
    *buffer = backend.allocate_zeros(total, dtype);
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(total / parameter_block), 0);
  for (Parameter& parameter : parameters_) {
    parameter.gradient = slice(gradients_, parameter);
    std::fill_n(mask.begin() + parameter.offset / parameter_block, padded(parameter.shape.elements()) / parameter_block,
                parameter.decay ? 1 : 0);
  }
  const auto blocks = static_cast<std::int64_t>(mask.size());
  decay_mask_ = Tensor(backend.allocate(mask.size()), {blocks}, DType::u8);
  backend.upload(decay_mask_, mask.data());
  if (const std::int64_t numbers = backend.plan(PinningCall{values_}).kept; numbers > 0)
    rounded_ = Tensor(backend.allocate(static_cast<std::size_t>(numbers) * sizeof(float)), {numbers}, DType::f32);
}

void ParameterStore::initialise(std::uint64_t seed) {
  ThreadPool pool(count() < weights_for_threads ? 1 : std::min(processors(), max_threads));
  std::vector<double> values;
  for (const Parameter& parameter : parameters_) {
    values.assign(static_cast<std::size_t>(parameter.shape.elements()), 0.0);
    if (parameter.initialise.fill && !values.empty()) draw_start(parameter, seed, pool, values);
    upload(parameter, values);
  }
}

Parameter* ParameterStore::find(const std::string& name) { return find_by(parameters_, name, &Parameter::name); }

std::int64_t ParameterStore::count() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters_) total += parameter.shape.elements();
  return total;
}

void ParameterStore::upload(const Parameter& parameter, std::span<const double> values) {
  if (static_cast<std::int64_t>(values.size()) != parameter.shape.elements())
    throw Error(ExitCode::failure, "parameter ", parameter.name, " is ", parameter.shape.text(), ", got ",
                values.size(), " numbers");
  if (dtype() == DType::f64 || !parameter.is_narrow) return upload_numbers(*backend_, parameter.value, values);
  std::vector<std::uint16_t> narrow(values.size());
  std::ranges::transform(values, narrow.begin(), [](double value) { return to_bfloat(static_cast<float>(value)); });
  backend_->upload(parameter.value, narrow.data());
}

std::vector<double> ParameterStore::download(const Tensor& tensor) const { return to_host(*backend_, tensor); }

}  // namespace afterglow
