//===- convolution_blas.cpp - float64 convolution by CBLAS ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each image and group the input is laid out as a matrix, a row per channel
// and position of the kernel, a column per position of the output; the
// convolution and its gradients are products with it (Chellapilla et al., "High
// performance convolutional neural networks for document processing", 2006).
//
//===----------------------------------------------------------------------===//

#include "core/strided_copy.h"
#include "core/text.h"
#include "cpu/blas_threads.h"
#include "cpu/convolution.h"
#include "tandem_rt/program_builder.h"

#include <algorithm>
#include <cblas.h>
#include <limits>

namespace tandem::rt::cpu {

namespace {
constexpr size_t kDims = 3; ///< Missing spatial dimensions have extent 1.
using Positions = std::array<int64_t, kDims>;

int64_t product(const Positions &extents) {
  return extents[0] * extents[1] * extents[2];
}

Positions lastOf(const Shape &values, int64_t otherwise) {
  Positions padded;
  padded.fill(otherwise);
  std::copy(values.rbegin(), values.rend(), padded.rbegin());
  return padded;
}

/// The convolution of one image and group.
struct Geometry {
  explicit Geometry(const Convolution &op)
      : in(spatial(op.input().extents)), kernel(spatial(op.weight().extents)),
        out(spatial(op.output().extents)), stride(lastOf(op.stride, 1)),
        padding(lastOf(op.padding, 0)), dilation(lastOf(op.dilation, 1)),
        channelsIn(op.weight().extents[1]),
        channelsOut(op.weight().extents[0] / op.groups()) {}

  static Positions spatial(const Shape &extents) {
    return lastOf(Shape(extents.begin() + 2, extents.end()), 1);
  }
  int64_t rows() const { return channelsIn * product(kernel); }
  int64_t columns() const { return product(out); }

  Positions in, kernel, out, stride, padding, dilation;
  int64_t channelsIn, channelsOut;
};

/// Calls `visit(number, position)` for the positions of one row and dimension
/// whose window is in the input.
template <typename Visit>
void forEachInside(const Geometry &g, size_t dim, int64_t k, Visit &&visit) {
  int64_t x = g.dilation[dim] * k - g.padding[dim];
  for (int64_t y = 0; y < g.out[dim]; ++y, x += g.stride[dim])
    if (x >= 0 && x < g.in[dim])
      visit(y, x);
}

/// Calls `visit(i, j)` for each element i of the matrix that is an element j of
/// the packed image.
template <typename Visit>
void forEachElement(const Geometry &g, Visit &&visit) {
  int64_t row = 0;
  for (int64_t c = 0; c < g.channelsIn; ++c)
    for (int64_t k0 = 0; k0 < g.kernel[0]; ++k0)
      for (int64_t k1 = 0; k1 < g.kernel[1]; ++k1)
        for (int64_t k2 = 0; k2 < g.kernel[2]; ++k2, ++row)
          forEachInside(g, 0, k0, [&](int64_t y0, int64_t x0) {
            forEachInside(g, 1, k1, [&](int64_t y1, int64_t x1) {
              int64_t to = (row * g.out[0] + y0) * g.out[1] + y1;
              int64_t from = (c * g.in[0] + x0) * g.in[1] + x1;
              forEachInside(g, 2, k2, [&](int64_t y2, int64_t x2) {
                visit(to * g.out[2] + y2, from * g.in[2] + x2);
              });
            });
          });
}

/// Three tensors of one group or image, packed, and the matrix.
class BlasConvolution final : public Task {
public:
  BlasConvolution(const TaskContext &context, const Convolution &op,
                  const std::optional<BufferRef> &ref)
      : op(op), g(op), threads(context.threads), workspace(context, ref) {
    for (size_t i = 0; i < 3; ++i)
      places[i] = context.memory.address(op.tensors[i].buffer);
  }
  Status prepare();
  Status run(int64_t iteration) override;

private:
  void pack(size_t number, int64_t image, int64_t group, bool isBack = false);
  void runOne(int64_t image);
  void fillMatrix();
  void addMatrix();
  /// c = a b, or onto c; dimensions are those of c and the one that is summed.
  static void multiply(CBLAS_TRANSPOSE ofA, CBLAS_TRANSPOSE ofB, int64_t m,
                       int64_t n, int64_t k, const double *a, const double *b,
                       double *c, bool isOnto);

  const Convolution &op;
  const Geometry g;
  const int threads;
  Workspace workspace;
  std::array<Address, 3> places;
  std::array<Address, 4> packedPlaces;
  std::array<double *, 3> data, packed; ///< Of the iteration.
  double *matrix = nullptr;
};

Status BlasConvolution::prepare() {
  const int64_t elements[] = {
      g.channelsIn * product(g.in), g.channelsOut * g.rows(),
      g.channelsOut * g.columns(), g.rows() * g.columns()};
  for (size_t i = 0; i < 4; ++i) {
    auto place = workspace.take(elements[i] * int64_t(sizeof(double)));
    if (!place.ok())
      return place.status();
    packedPlaces[i] = *place;
  }
  return Status::success();
}

/// Copies what `image` and `group` have of a tensor, or back.
void BlasConvolution::pack(size_t number, int64_t image, int64_t group,
                           bool isBack) {
  const ConvolutionTensor &tensor = op.tensors[number];
  Shape extents = tensor.extents;
  bool isWeight = number == 1;
  int64_t channels = number == 0 ? g.channelsIn : g.channelsOut;
  int64_t at = group * channels * tensor.strides[isWeight ? 0 : 1];
  if (!isWeight)
    at += image * tensor.strides[0];
  extents[0] = isWeight ? channels : 1;
  extents[1] = isWeight ? g.channelsIn : channels;
  Shape dense = contiguousStrides(extents);
  if (isBack)
    copyStrided(extents, sizeof(double), packed[number], dense,
                data[number] + at, tensor.strides);
  else
    copyStrided(extents, sizeof(double), data[number] + at, tensor.strides,
                packed[number], dense);
}

void BlasConvolution::fillMatrix() {
  std::fill(matrix, matrix + g.rows() * g.columns(), 0.0);
  forEachElement(g, [&](int64_t i, int64_t j) { matrix[i] = packed[0][j]; });
}

void BlasConvolution::addMatrix() {
  std::fill(packed[0], packed[0] + g.channelsIn * product(g.in), 0.0);
  forEachElement(g, [&](int64_t i, int64_t j) { packed[0][j] += matrix[i]; });
}

void BlasConvolution::multiply(CBLAS_TRANSPOSE ofA, CBLAS_TRANSPOSE ofB,
                               int64_t m, int64_t n, int64_t k, const double *a,
                               const double *b, double *c, bool isOnto) {
  cblas_dgemm(CblasRowMajor, ofA, ofB, blasint(m), blasint(n), blasint(k), 1.0,
              a, blasint(ofA == CblasNoTrans ? k : m), b,
              blasint(ofB == CblasNoTrans ? n : k), isOnto ? 1.0 : 0.0, c,
              blasint(n));
}

void BlasConvolution::runOne(int64_t image) {
  const int64_t o = g.channelsOut, r = g.rows(), c = g.columns();
  auto [input, weight, output] = packed;
  switch (op.kind) {
  case ConvolutionKind::Forward:
    fillMatrix();
    return multiply(CblasNoTrans, CblasNoTrans, o, c, r, weight, matrix, output,
                    false);
  case ConvolutionKind::InputGradient:
    multiply(CblasTrans, CblasNoTrans, r, c, o, weight, output, matrix, false);
    return addMatrix();
  case ConvolutionKind::WeightGradient:
    fillMatrix();
    return multiply(CblasNoTrans, CblasTrans, o, r, c, output, matrix, weight,
                    image > 0);
  }
}

Status BlasConvolution::run(int64_t iteration) {
  BlasThreads hold(threads);
  auto pointer = [&](const Address &place) {
    return reinterpret_cast<double *>(place.at(iteration));
  };
  for (size_t i = 0; i < 3; ++i)
    data[i] = pointer(places[i]), packed[i] = pointer(packedPlaces[i]);
  matrix = pointer(packedPlaces[3]);
  size_t made = op.roles()[2];
  for (int64_t group = 0, groups = op.groups(); group < groups; ++group) {
    if (made != 1)
      pack(1, 0, group);
    for (int64_t image = 0; image < op.input().extents[0]; ++image) {
      for (size_t number : {size_t(0), size_t(2)})
        if (number != made)
          pack(number, image, group);
      runOne(image);
      if (made != 1)
        pack(made, image, group, /*isBack=*/true);
    }
    if (made == 1)
      pack(1, 0, group, /*isBack=*/true);
  }
  return Status::success();
}
} // namespace

Expected<std::unique_ptr<Task>>
makeBlasConvolution(const TaskContext &context, const Convolution &op,
                    const std::optional<BufferRef> &workspace) {
  constexpr int64_t kMost = std::numeric_limits<blasint>::max();
  Geometry g(op);
  for (int64_t extent : {g.rows(), g.columns(), g.channelsOut})
    if (extent > kMost)
      return errorOf("convolution is a product of ", g.channelsOut, ", ",
                     g.columns(), " and ", g.rows(), ", expected at most ",
                     kMost);
  auto task = std::make_unique<BlasConvolution>(context, op, workspace);
  if (Status status = task->prepare(); !status.ok())
    return status;
  return std::unique_ptr<Task>(std::move(task));
}

} // namespace tandem::rt::cpu
