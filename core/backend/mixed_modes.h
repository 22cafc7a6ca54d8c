// The matrices of a Koopman MLP's mixer (Kernels::mixed_modes) in plain loops, one function for every back end. A team
// divides the work: `each(n, m, body)` calls body(i, j) for i < n, j < m, and `wait()` until all of that is done.
#pragma once
#include <cmath>

namespace afterglow {

/// A learned eigenvalue, divided by its modulus where it lies outside of the unit circle.
template <class T>
struct UnitMode {
  T gamma = 0, omega = 0, shrink = 1;
  constexpr UnitMode() = default;
  constexpr UnitMode(T g, T w) : gamma(g), omega(w) {
    const T modulus = std::sqrt(gamma * gamma + omega * omega);
    shrink = modulus > T{1} ? T{1} / modulus : T{1};
    gamma *= shrink;
    omega *= shrink;
  }
  /// lambda = raw / |raw| outside the circle: the gradient loses its radial part and shrinks.
  constexpr void through_division(T& dgamma, T& domega) const {
    if (shrink >= T{1}) return;
    const T radial = dgamma * gamma + domega * omega;
    dgamma = shrink * (dgamma - radial * gamma);
    domega = shrink * (domega - radial * omega);
  }
};

constexpr int mixed_scratch(int b) { return 3 * b * b + 2 * b; }  ///< numbers of `memory` for a block of b channels

/// Q = (I + S)^-1 (I - S) = 2 (I + S)^-1 - I and W = R Q of one block: A, Q, W [b,b], gamma, omega [b/2]. Gauss-Jordan
/// steps in place need no pivoting, as the symmetric part of I + S is I.
template <class T, class Team>
constexpr void mix_block(const Team& team, int b, const T* A, const T* gamma, const T* omega, T* Q, T* W, T* memory) {
  T *N = memory, *row = N + b * b, *column = row + b;
  team.each(b, b, [=](int i, int j) { N[i * b + j] = (i == j ? T{1} : T{0}) + A[i * b + j] - A[j * b + i]; });
  for (int p = 0; p < b; ++p) {
    team.wait();
    team.each(1, b, [=](int, int j) {
      row[j] = N[p * b + j];
      column[j] = N[j * b + p];
    });
    team.wait();
    team.each(b, b, [=](int i, int j) {
      const T factor = (i == p ? T{1} : -column[i]) / row[p];
      const T rest = i == p || j == p ? T{0} : N[i * b + j];
      N[i * b + j] = rest + factor * (j == p ? T{1} : row[j]);
    });
  }
  team.wait();
  team.each(b, b, [=](int i, int j) {
    const auto mixer = [=](int k) { return 2 * N[k * b + j] - (k == j ? T{1} : T{0}); };
    const UnitMode<T> mode(gamma[i / 2], omega[i / 2]);
    Q[i * b + j] = mixer(i);
    W[i * b + j] = mode.gamma * mixer(i) + (i % 2 == 0 ? mode.omega : -mode.omega) * mixer(i ^ 1);
  });
}

/// dQ = R^T dW; with N = (I + S)^-1 = (Q + I) / 2: dS = -2 N^T dQ N^T, dA = dS - dS^T. Calls
/// put_mode(pair, dgamma, domega) and put(place in A, number).
template <class T, class Team, class PutMode, class Put>
constexpr void mix_block_backward(const Team& team, int b, const T* gamma, const T* omega, const T* Q, const T* dW,
                                  T* memory, const PutMode& put_mode, const Put& put) {
  T *N = memory, *dQ = N + b * b, *product = dQ + b * b;
  team.each(b, b, [=](int i, int j) {
    const UnitMode<T> mode(gamma[i / 2], omega[i / 2]);
    N[i * b + j] = (Q[i * b + j] + (i == j ? T{1} : T{0})) / 2;
    dQ[i * b + j] = mode.gamma * dW[i * b + j] + (i % 2 == 0 ? -mode.omega : mode.omega) * dW[(i ^ 1) * b + j];
  });
  team.each(1, b / 2, [=](int, int pair) {
    const T *mixer = Q + 2 * pair * b, *upstream = dW + 2 * pair * b;
    T real = 0, imaginary = 0;
    for (int j = 0; j < b; ++j) {
      real += upstream[j] * mixer[j] + upstream[b + j] * mixer[b + j];
      imaginary += upstream[j] * mixer[b + j] - upstream[b + j] * mixer[j];
    }
    UnitMode<T>(gamma[pair], omega[pair]).through_division(real, imaginary);
    put_mode(pair, real, imaginary);
  });
  team.wait();
  team.each(b, b, [=](int i, int j) {
    T sum = 0;
    for (int k = 0; k < b; ++k) sum += N[k * b + i] * dQ[k * b + j];
    product[i * b + j] = sum;
  });
  team.wait();
  team.each(b, b, [=](int i, int j) {
    T sum = 0;
    for (int k = 0; k < b; ++k) sum += product[i * b + k] * N[j * b + k];
    dQ[i * b + j] = sum;
  });
  team.wait();
  team.each(b, b, [=](int i, int j) { put(i * b + j, 2 * (dQ[j * b + i] - dQ[i * b + j])); });
}

}  // namespace afterglow
