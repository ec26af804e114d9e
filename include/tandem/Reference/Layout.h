//===- Layout.h - splits and joins tensors ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor's value on a mesh is one local tensor per point. A point is a choice
// of one coordinate per axis, space and time alike; points are counted
// row-major in the order of the mesh.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_LAYOUT_H
#define TANDEM_REFERENCE_LAYOUT_H

#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Reference/Tensor.h"

namespace tandem::reference {

/// The points of a mesh; one point if there is no mesh.
class Points {
public:
  explicit Points(spmd::MeshAttr mesh) : mesh(mesh) {}

  spmd::MeshAttr getMesh() const { return mesh; }
  unsigned getNumAxes() const { return mesh ? mesh.getNumAxes() : 0; }
  int64_t size() const;
  llvm::SmallVector<int64_t, 4> getCoordinates(int64_t point) const;
  int64_t getPoint(llvm::ArrayRef<int64_t> coordinates) const;
  /// The points that differ from `point` only on `axes`, in ascending order.
  llvm::SmallVector<int64_t> getGroup(int64_t point,
                                      llvm::ArrayRef<unsigned> axes) const;
  /// `point` with coordinate 0 on `axes`.
  int64_t getFirst(int64_t point, llvm::ArrayRef<unsigned> axes) const;

private:
  spmd::MeshAttr mesh;
};

/// One local tensor per point; null where the point holds none (`at`).
using Shards = std::vector<TensorRef>;

/// What every point holds of `whole`. Of a `reduce` axis the first point holds
/// the value and the others zero. Where the form is `at`, others hold nothing.
Shards distribute(const Tensor &whole, const Points &points,
                  llvm::ArrayRef<spmd::AxisForm> forms);

/// Puts `shards` together over `axes` (forms on other axes are not looked at):
/// every point gets what its group holds together, of shape `shape` on these
/// axes. Where the form is `full` the first member's copy is taken.
Shards assemble(const Shards &shards, llvm::ArrayRef<int64_t> shape,
                const Points &points, llvm::ArrayRef<spmd::AxisForm> forms,
                llvm::ArrayRef<unsigned> axes);

/// The meaning of `spmd.reform`: shards of a tensor of `shape` in the forms
/// `from` become shards in the forms `to`. Where `at(i)` becomes `reduce`,
/// point i keeps the value.
Shards reform(const Shards &shards, llvm::ArrayRef<int64_t> shape,
              const Points &points, llvm::ArrayRef<spmd::AxisForm> from,
              llvm::ArrayRef<spmd::AxisForm> to);

/// An axis on which `forms` is full, but `shards` differ; none if all copies
/// are equal.
std::optional<unsigned> findDivergence(const Shards &shards,
                                       const Points &points,
                                       llvm::ArrayRef<spmd::AxisForm> forms);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_LAYOUT_H
