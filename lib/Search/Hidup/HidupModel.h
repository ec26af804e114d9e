//===- HidupModel.h - a search problem, indexed for HiDup's walk -*- C++
//-*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The problem as the walk over its operators wants it: forms as small indices
// per tensor, times as integers, live tensors as slots.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_HIDUPMODEL_H
#define TANDEM_LIB_SEARCH_HIDUPMODEL_H

#include "HidupLabels.h"

namespace tandem::search::hidup {

/// Index of a form among those that a tensor may have in any plan.
using FormIndex = uint8_t;
/// Set of them.
using FormSet = uint64_t;
constexpr unsigned kMaxForms = 62;

struct ModelChange {
  bool isPossible = false;
  Time forward = 0, backward = 0;
};

struct ModelTensor {
  std::vector<cost::Form> forms;
  /// forms x forms.
  std::vector<ModelChange> changes;
  /// Per form, the others that it can be changed to.
  std::vector<FormSet> reachable;
  /// If the tensor is made by a deferred operator: that operator.
  int source = -1;
  unsigned firstUse = 0, lastUse = 0;
  bool isUsed = false;

  const ModelChange &getChange(FormIndex from, FormIndex to) const {
    return changes[from * forms.size() + to];
  }
};

struct ModelSignature {
  std::vector<FormIndex> operands, results;
  Time computation = 0;
  /// Of parameters, in the form they are stored in.
  int64_t residentBytes = 0;
};

/// A tensor that is alive between two operators. Those of deferred operators
/// are from their first use on; before, they are *pending*.
struct Slot {
  unsigned tensor;
  /// Its place at the operator in front.
  unsigned before;
  /// Forms that later operators may want it in.
  FormSet wanted;
};

/// A pending tensor that an operator is the first to use.
struct Opened {
  unsigned tensor;
  /// How many of those pending were made after it.
  unsigned rank;
};

struct ModelOperator {
  /// An argument without computation of its own: its signature is chosen where
  /// its tensor is first used.
  bool isDeferred = false;
  std::vector<ModelSignature> signatures;
  /// What this operator and those behind it add to the value of a label at
  /// least.
  Time rest = 0;
  /// Tensors alive before the operator.
  std::vector<Slot> slots;
  std::vector<Opened> opened;
  /// Tensor and place of each operand: places number the slots, then what is
  /// opened, then the results.
  std::vector<unsigned> operandTensors, operandPlaces;
  /// Whether nothing reads the tensor behind this operand.
  std::vector<bool> isLastUse;

  unsigned getNumPlaces() const { return slots.size() + opened.size(); }
};

struct Model {
  cost::Accounting accounting;
  double secondsPerUnit = 0;
  std::vector<ModelTensor> tensors;
  /// One more than the problem's: the last has no signatures and no slots.
  std::vector<ModelOperator> operators;
};

/// Nothing, with one line in `error`, if the problem is not one for HiDup's
/// search.
std::optional<Model> makeModel(const cost::SearchProblem &problem,
                               std::string &error);

} // namespace tandem::search::hidup

#endif // TANDEM_LIB_SEARCH_HIDUPMODEL_H
