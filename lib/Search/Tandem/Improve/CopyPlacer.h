//===- CopyPlacer.h - the copies of an edited plan --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which copies a tensor has, where they are made and from what: Cost.h,
// *Copies* and *Sums over time*. By tensor, so that an edited plan
// (Tandem/Improve/Editor.h) places only those anew that a change touches.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_COPYPLACER_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_COPYPLACER_H

#include "Tandem/Problem/Facts.h"
#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Plan.h"

namespace tandem::search {

/// A copy, made in the stage of operator `op`, which is `stage`.
struct EditedCopy {
  cost::Copy copy;
  unsigned op, stage, lastOp = 0;
  const cost::ChangeCost *change = nullptr;
  int64_t bytes = 0;
  bool waits = false, isInPlace = false;
};

/// What a tensor adds to stages.
struct EditedTensor {
  std::vector<EditedCopy> copies;
  std::vector<cost::Copy> kept;
  /// The last operator takes what was produced, or is the first to take a copy
  /// of it (Cost.h, *Copies*).
  unsigned stage = 0, lastOp = 0;
  int64_t bytes = 0, summedBytes = 0;
  double sumSeconds = 0, leaving = 0;
  bool isPlaced = false, isSummed = false, keepsTerms = false,
       isInPlace = false, hasWaiting = false, isOverTime = false;
};

/// What is decided of a plan.
struct EditedPlan {
  /// Decisions other than the usual ones: all copies that the next pass wants
  /// again are kept, all gradients wait.
  struct Flip {
    unsigned tensor;
    bool isWait;
    cost::Copy copy;
  };
  std::vector<unsigned> signatures;
  /// Per operator the first one of its stage; per first one that of the next.
  std::vector<unsigned> stageOf, nextStage;
  std::vector<Flip> flips;
};

class CopyPlacer {
public:
  enum class Placed { Yes, NeedsCut, Impossible };

  /// Looks at the plan as it is at each call. Bytes are counted if there is a
  /// limit of memory.
  CopyPlacer(const Facts &facts, cost::ChangeTable &table,
             const EditedPlan &plan);

  /// Fills in what the tensor adds; `cut` is the operator before which a cut is
  /// needed, if one is.
  Placed place(unsigned tensor, EditedTensor &made, unsigned &cut);

private:
  Placed placeUse(EditedTensor &made, unsigned tensor,
                  const cost::TensorUse &use);
  Placed makeCopy(EditedTensor &made, const cost::TensorUse &use,
                  unsigned tensor, const cost::Layout &base);
  void endPass(EditedTensor &made, unsigned tensor,
               const std::vector<cost::TensorUse> &uses, size_t firstUse,
               size_t endUse);
  bool isWantedIn(unsigned tensor, const std::vector<cost::TensorUse> &uses,
                  size_t firstUse, const cost::Layout &layout) const;
  bool usuallyWaits(unsigned tensor) const;
  bool isFlipped(const cost::Copy &copy, bool isWait) const;
  void setInPlace(EditedTensor &made, unsigned tensor) const;
  const cost::Layout &getWanted(const cost::TensorUse &use) const {
    return facts.getWanted(plan.signatures, use);
  }
  const cost::Layout &getProduced(unsigned tensor) const {
    return facts.getProduced(plan.signatures, tensor);
  }
  cost::Layout getBase(unsigned tensor, const cost::TensorUse &use) const {
    return facts.getBase(plan.signatures, tensor, use);
  }

  const Facts &facts;
  const cost::SearchProblem &problem;
  cost::ChangeTable &table;
  const EditedPlan &plan;
  bool hasLimit;
  /// Copies of the tensor at hand that are there in the pass.
  std::vector<unsigned> alive;
  std::vector<cost::TensorUse> scratch;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_COPYPLACER_H
