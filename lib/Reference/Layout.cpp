//===- Layout.cpp - splits and joins tensors ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Layout.h"
#include <map>

using namespace mlir;
using namespace tandem::spmd;

namespace tandem::reference {

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

int64_t Points::size() const {
  return mesh ? mesh.getNumRanks() * mesh.getNumStrands() : 1;
}

SmallVector<int64_t, 4> Points::getCoordinates(int64_t point) const {
  SmallVector<int64_t, 4> coordinates(getNumAxes());
  for (unsigned axis = getNumAxes(); axis-- > 0;) {
    coordinates[axis] = point % mesh.getSize(axis);
    point /= mesh.getSize(axis);
  }
  return coordinates;
}

int64_t Points::getPoint(ArrayRef<int64_t> coordinates) const {
  int64_t point = 0;
  for (unsigned axis = 0; axis < getNumAxes(); ++axis)
    point = point * mesh.getSize(axis) + coordinates[axis];
  return point;
}

int64_t Points::getFirst(int64_t point, ArrayRef<unsigned> axes) const {
  auto coordinates = getCoordinates(point);
  for (unsigned axis : axes)
    coordinates[axis] = 0;
  return getPoint(coordinates);
}

SmallVector<int64_t> Points::getGroup(int64_t point,
                                      ArrayRef<unsigned> axes) const {
  SmallVector<int64_t> group;
  int64_t first = getFirst(point, axes);
  for (int64_t other = 0; other < size(); ++other)
    if (getFirst(other, axes) == first)
      group.push_back(other);
  return group;
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

/// `forms` on `axes`, `full` elsewhere.
static Forms restrictTo(ArrayRef<AxisForm> forms, ArrayRef<unsigned> axes) {
  Forms restricted(forms.size(), AxisForm::full());
  for (unsigned axis : axes)
    restricted[axis] = forms[axis];
  return restricted;
}

/// Whether a point is meant that has nothing of a `reduce` axis: another than
/// `keepers` names for the axis.
static bool holdsZero(ArrayRef<AxisForm> forms, ArrayRef<int64_t> keepers,
                      ArrayRef<int64_t> coordinates) {
  return llvm::any_of(llvm::zip(forms, keepers, coordinates), [](auto triple) {
    auto [form, keeper, coordinate] = triple;
    return form.isReduce() && coordinate != keeper;
  });
}

/// What the point `coordinates` holds of `whole`, which may be nothing.
static TensorRef takeShard(const TensorRef &whole, MeshAttr mesh,
                           ArrayRef<AxisForm> forms, ArrayRef<int64_t> keepers,
                           ArrayRef<int64_t> coordinates) {
  if (!whole || !isHeld(forms, coordinates))
    return nullptr;
  auto shape = getLocalShape(whole->getShape(), mesh, forms);
  if (holdsZero(forms, keepers, coordinates))
    return std::make_shared<Tensor>(shape, whole->getElementType());
  if (ArrayRef<int64_t>(shape) == whole->getShape())
    return whole;
  auto offsets = getLocalOffsets(whole->getShape(), mesh, forms, coordinates);
  return std::make_shared<Tensor>(extractBlock(*whole, offsets, shape));
}

/// Every point takes its shard of the whole that it holds. Points that take the
/// same part of the same whole share it.
static Shards takeShards(const Shards &wholes, const Points &points,
                         ArrayRef<AxisForm> forms, ArrayRef<int64_t> keepers) {
  SmallVector<unsigned> copies;
  for (auto [axis, form] : llvm::enumerate(forms))
    if (form.isFull())
      copies.push_back(axis);
  std::map<std::pair<const Tensor *, int64_t>, TensorRef> taken;
  Shards shards;
  for (int64_t point = 0; point < points.size(); ++point) {
    TensorRef &shard =
        taken[{wholes[point].get(), points.getFirst(point, copies)}];
    if (!shard)
      shard = takeShard(wholes[point], points.getMesh(), forms, keepers,
                        points.getCoordinates(point));
    shards.push_back(shard);
  }
  return shards;
}

Shards distribute(const Tensor &whole, const Points &points,
                  ArrayRef<AxisForm> forms) {
  Shards wholes(points.size(), std::make_shared<Tensor>(whole));
  SmallVector<int64_t> keepers(forms.size(), 0);
  return takeShards(wholes, points, forms, keepers);
}

/// Puts together what `group` holds: terms of the same slice are added up,
/// slices are written to their places.
static TensorRef assembleGroup(const Shards &shards, ArrayRef<int64_t> group,
                               ArrayRef<int64_t> shape, const Points &points,
                               ArrayRef<AxisForm> forms) {
  SmallVector<unsigned> copies;
  for (auto [axis, form] : llvm::enumerate(forms))
    if (form.isFull())
      copies.push_back(axis);
  auto isHeldAt = [&](int64_t point) {
    return isHeld(forms, points.getCoordinates(point));
  };
  int64_t firstCopy = *llvm::find_if(group, isHeldAt);
  if (!shards[firstCopy])
    return nullptr; // all of the group are elsewhere on another axis
  std::map<std::vector<int64_t>, std::vector<TensorRef>> slices;
  for (int64_t point : llvm::make_filter_range(group, isHeldAt)) {
    auto coordinates = points.getCoordinates(point);
    auto kept = points.getCoordinates(firstCopy);
    if (llvm::any_of(copies, [&](unsigned axis) {
          return coordinates[axis] != kept[axis];
        }))
      continue;
    auto offsets = getLocalOffsets(shape, points.getMesh(), forms, coordinates);
    slices[{offsets.begin(), offsets.end()}].push_back(shards[point]);
  }
  if (slices.size() == 1 && slices.begin()->second.size() == 1)
    return slices.begin()->second.front();
  Tensor whole(shape, shards[firstCopy]->getElementType());
  for (const auto &[offsets, terms] : slices)
    insertBlock(whole, sumOf(terms), offsets);
  return std::make_shared<Tensor>(std::move(whole));
}

Shards assemble(const Shards &shards, ArrayRef<int64_t> shape,
                const Points &points, ArrayRef<AxisForm> forms,
                ArrayRef<unsigned> axes) {
  Forms restricted = restrictTo(forms, axes);
  // Groups that hold the same tensors share what they hold together.
  std::map<std::vector<const Tensor *>, TensorRef> assembled;
  Shards wholes(points.size());
  for (int64_t point = 0; point < points.size(); ++point) {
    if (int64_t first = points.getFirst(point, axes); first != point) {
      wholes[point] = wholes[first];
      continue;
    }
    auto group = points.getGroup(point, axes);
    std::vector<const Tensor *> members;
    for (int64_t member : group)
      members.push_back(shards[member].get());
    TensorRef &whole = assembled[members];
    if (!whole)
      whole = assembleGroup(shards, group, shape, points, restricted);
    wholes[point] = whole;
  }
  return wholes;
}

Shards reform(const Shards &shards, ArrayRef<int64_t> shape,
              const Points &points, ArrayRef<AxisForm> from,
              ArrayRef<AxisForm> to) {
  // Axes whose form stays and which split nothing keep their points apart.
  SmallVector<unsigned> joined;
  for (unsigned axis = 0; axis < points.getNumAxes(); ++axis)
    if (from[axis] != to[axis] || from[axis].isGather())
      joined.push_back(axis);
  Shards wholes = assemble(shards, shape, points, from, joined);
  SmallVector<int64_t> keepers;
  for (AxisForm form : from)
    keepers.push_back(form.isAt() ? form.getPoint() : 0);
  return takeShards(wholes, points, restrictTo(to, joined), keepers);
}

std::optional<unsigned> findDivergence(const Shards &shards,
                                       const Points &points,
                                       ArrayRef<AxisForm> forms) {
  for (unsigned axis = 0; axis < points.getNumAxes(); ++axis) {
    if (!forms[axis].isFull())
      continue;
    for (int64_t point = 0; point < points.size(); ++point) {
      int64_t first = points.getFirst(point, axis);
      if (shards[first] != shards[point] &&
          (!shards[first] || !shards[point] ||
           !shards[first]->isIdenticalTo(*shards[point])))
        return axis;
    }
  }
  return std::nullopt;
}

} // namespace tandem::reference
