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

Forms getFormsOn(Type type, MeshAttr mesh) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto form =
      tensor ? dyn_cast_or_null<FormAttr>(tensor.getEncoding()) : FormAttr();
  Forms forms(mesh ? mesh.getNumAxes() : 0, AxisForm::full());
  if (!form)
    return forms;
  // Axes are found by name, so that forms on the time axes alone fit as well.
  for (auto [index, code] : llvm::enumerate(form.getCodes()))
    if (auto axis = mesh.lookup(form.getMesh().getName(index)))
      forms[*axis] = AxisForm::fromCode(code);
  return forms;
}

/// `forms` on `axes`, `full` elsewhere.
static Forms restrictTo(ArrayRef<AxisForm> forms, ArrayRef<unsigned> axes) {
  Forms restricted(forms.size(), AxisForm::full());
  for (unsigned axis : axes)
    restricted[axis] = forms[axis];
  return restricted;
}

/// Whether a point other than the first one of a `reduce` axis is meant.
static bool holdsZero(ArrayRef<AxisForm> forms, ArrayRef<int64_t> coordinates) {
  return llvm::any_of(llvm::zip(forms, coordinates), [](auto pair) {
    return std::get<0>(pair).isReduce() && std::get<1>(pair) != 0;
  });
}

/// What the point `coordinates` holds of `whole`.
static TensorRef takeShard(const TensorRef &whole, MeshAttr mesh,
                           ArrayRef<AxisForm> forms,
                           ArrayRef<int64_t> coordinates) {
  auto shape = getLocalShape(whole->getShape(), mesh, forms);
  if (holdsZero(forms, coordinates))
    return std::make_shared<Tensor>(shape, whole->getElementType());
  if (ArrayRef<int64_t>(shape) == whole->getShape())
    return whole;
  auto offsets = getLocalOffsets(whole->getShape(), mesh, forms, coordinates);
  return std::make_shared<Tensor>(extractBlock(*whole, offsets, shape));
}

/// Every point takes its shard of the whole that it holds. Points that take the
/// same part of the same whole share it.
static Shards takeShards(const Shards &wholes, const Points &points,
                         ArrayRef<AxisForm> forms) {
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
      shard = takeShard(wholes[point], points.getMesh(), forms,
                        points.getCoordinates(point));
    shards.push_back(shard);
  }
  return shards;
}

Shards distribute(const Tensor &whole, const Points &points,
                  ArrayRef<AxisForm> forms) {
  Shards wholes(points.size(), std::make_shared<Tensor>(whole));
  return takeShards(wholes, points, forms);
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
  int64_t firstCopy = group.front();
  std::map<std::vector<int64_t>, std::vector<TensorRef>> slices;
  for (int64_t point : group) {
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
  return takeShards(wholes, points, restrictTo(to, joined));
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
          !shards[first]->isIdenticalTo(*shards[point]))
        return axis;
    }
  }
  return std::nullopt;
}

} // namespace tandem::reference
