//===- Form.h - forms of tensors on the axes of a mesh ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layout algebra. A tensor has one form per axis (HiDup, section 4.1):
// `full`, `gather(d)` or `reduce`; on space axes also `at(i)`: point i alone
// holds it, the others hold nothing. Where several axes split one dimension,
// time axes are the major ones, then space axes in the order of the mesh; the
// slice that a device holds of a microbatch is therefore one contiguous block.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_FORM_H
#define TANDEM_DIALECT_SPMD_FORM_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Support/LLVM.h"
#include "tandem/Support/FormText.h"

namespace tandem::spmd {

class MeshAttr;

/// The form of a tensor along one axis.
class AxisForm {
public:
  static AxisForm full() { return AxisForm(form::kFull); }
  static AxisForm reduce() { return AxisForm(form::kReduce); }
  static AxisForm gather(int64_t dim) { return AxisForm(dim); }
  static AxisForm at(int64_t point) { return AxisForm(form::kAtFirst - point); }
  static AxisForm fromCode(int64_t code) { return AxisForm(code); }
  AxisForm() : AxisForm(form::kFull) {}

  bool isFull() const { return code == form::kFull; }
  bool isReduce() const { return code == form::kReduce; }
  bool isAt() const { return code <= form::kAtFirst; }
  bool isGather() const { return code >= 0; }
  bool isGather(int64_t dim) const { return code == dim; }
  /// The dimension that is split. Only for `gather`.
  int64_t getDim() const { return code; }
  /// The point that holds the tensor. Only for `at`.
  int64_t getPoint() const { return form::kAtFirst - code; }
  /// The split dimension, or a code of `FormText.h`.
  int64_t getCode() const { return code; }
  bool operator==(const AxisForm &) const = default;
  auto operator<=>(const AxisForm &) const = default;

  /// `full`, `reduce`, `gather(d)` or `at(i)`.
  std::string str() const;

private:
  explicit AxisForm(int64_t code) : code(code) {}
  int64_t code;
};

/// Parses what `str` prints.
std::optional<AxisForm> parseAxisForm(llvm::StringRef text);

/// One form per axis of a mesh, in the order of the mesh.
using Forms = llvm::SmallVector<AxisForm, 4>;

/// `full, gather(0)`; no form is no text.
std::string printForms(llvm::ArrayRef<AxisForm> forms);
std::optional<Forms> parseForms(llvm::StringRef text);

/// The mesh that the module around `op` declares in `spmd.mesh`; null if none.
MeshAttr getMesh(mlir::Operation *op);

/// The forms in `type`, all `full` where it has no encoding.
Forms getForms(mlir::Type type, MeshAttr mesh);

/// `type` with `forms` as encoding; without encoding if all are `full`.
mlir::RankedTensorType withForms(mlir::RankedTensorType type, MeshAttr mesh,
                                 llvm::ArrayRef<AxisForm> forms);

/// `type` without its encoding.
mlir::RankedTensorType withoutForms(mlir::RankedTensorType type);

/// Which axes of a mesh a function is about.
enum class AxisKind { Space, Time, Both };

/// The shape of what one point of the chosen axes holds.
llvm::SmallVector<int64_t> getLocalShape(llvm::ArrayRef<int64_t> shape,
                                         MeshAttr mesh,
                                         llvm::ArrayRef<AxisForm> forms,
                                         AxisKind kind = AxisKind::Both);

/// Where the slice of the point `coordinates` (one per axis of the mesh) begins
/// in the global tensor. Its shape is `getLocalShape(..., Both)`.
llvm::SmallVector<int64_t> getLocalOffsets(llvm::ArrayRef<int64_t> shape,
                                           MeshAttr mesh,
                                           llvm::ArrayRef<AxisForm> forms,
                                           llvm::ArrayRef<int64_t> coordinates);

/// Whether the point `coordinates` (one per axis of the mesh) holds a part of
/// the tensor: it is the point of every `at`.
bool isHeld(llvm::ArrayRef<AxisForm> forms,
            llvm::ArrayRef<int64_t> coordinates);

/// What is left of `forms` behind `localize`: `at`, and the forms of time axes;
/// behind `duplex` (without `hasTime`) `at` alone.
Forms getFormsLeft(MeshAttr mesh, llvm::ArrayRef<AxisForm> forms, bool hasTime);

/// Whether elements of `type` (a tensor's or an element type) are truth values.
bool isTruth(mlir::Type type);

/// Whether a tensor of `type` (whose own encoding does not count) can have
/// `forms`: every gather has an existing dimension, the product of the axes on
/// a dimension divides it, truth values are not `reduce`, and `at` names a
/// point of a space axis. Says why not in `reason`.
bool canHaveForms(mlir::RankedTensorType type, MeshAttr mesh,
                  llvm::ArrayRef<AxisForm> forms,
                  std::string *reason = nullptr);

/// Whether `axis` may be taken off (or put on) dimension `dim` alone: no axis
/// that is minor to it splits the same dimension in `forms`.
bool isMinorMost(MeshAttr mesh, llvm::ArrayRef<AxisForm> forms, unsigned axis,
                 int64_t dim);

/// The only axis on which `from` and `to` differ, if changing it is one plain
/// collective or local operation: the axis is the minor-most one on the
/// dimension that it leaves, and on the one that it enters. No form but `full`
/// and `at` becomes `reduce`, and `gather` and `at` do not become each other.
/// Otherwise none, and why in `reason`.
std::optional<unsigned> getReformedAxis(MeshAttr mesh,
                                        llvm::ArrayRef<AxisForm> from,
                                        llvm::ArrayRef<AxisForm> to,
                                        std::string *reason = nullptr);

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_FORM_H
