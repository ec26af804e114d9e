//===- Fit.h - forms with which given stages are legal ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy needs a source that existed before its stage, so given stages do not
// suit all forms. Whether a use can read what its producer gives depends on two
// operators: pairs narrow what each may choose (Mackworth 1977, AC-3), and the
// operators decide in turn, each for the first of its wishes that leaves the
// others a choice.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_STAGES_FIT_H
#define TANDEM_LIB_SEARCH_TANDEM_STAGES_FIT_H

#include "Tandem/Problem/Facts.h"
#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Plan.h"
#include <functional>

namespace tandem::search {

class StageFitter {
public:
  StageFitter(const Facts &facts, cost::ChangeTable &table,
              const std::vector<unsigned> &stageEnds);

  /// How much an operator dislikes a signature.
  using Dislike = std::function<double(unsigned op, unsigned signature)>;

  /// Signatures that are legal with the stages. Nothing if there are none, or
  /// none is found by a fixed amount of work.
  std::optional<std::vector<unsigned>> fit(const Dislike &dislike);

private:
  /// A use of a tensor, and the operator that makes it.
  struct Link {
    unsigned tensor, producer, result, user, operand;
    /// Whether both lie in one stage, where nothing can be changed.
    bool isWithin;
  };
  struct Decision {
    unsigned group, signature;
    /// How much had been removed before.
    size_t numRemoved;
  };

  const cost::Layout &getLayout(const Link &link, bool isProducer,
                                unsigned signature) const;
  std::vector<cost::Layout> listLayouts(const Link &link,
                                        bool isProducer) const;
  bool canRead(const Link &link, const cost::Layout &produced,
               const cost::Layout &wanted);
  void remove(unsigned group, unsigned signature);
  bool keepOnly(const Link &link, bool ofProducer,
                const std::function<bool(const cost::Layout &)> &isPossible);
  bool narrow(const Link &link);
  bool narrowCopies(const Link &link);
  bool propagate();
  bool decide(unsigned group, unsigned signature);
  bool retract();
  void reset();
  unsigned choose(unsigned group, const Dislike &dislike) const;

  const Facts &facts;
  const cost::SearchProblem &problem;
  cost::ChangeTable &table;
  bool isHidup;
  std::vector<Link> links;
  /// Per tensor its links; per group of tied operators, named by its first one,
  /// those of its operands and results.
  std::vector<std::vector<unsigned>> linksOf, linksOfGroup;
  /// Per group the signatures that are left to choose from.
  std::vector<std::vector<bool>> isOpen;
  std::vector<unsigned> numOpen;
  std::vector<std::pair<unsigned, unsigned>> removed;
  std::vector<Decision> decisions;
  /// Links to look at.
  std::vector<unsigned> queue;
  std::vector<bool> isQueued;
};

/// A plan with these stages and forms near those of `model`, what follows from
/// it filled in. Nothing if none is found that fits into memory.
std::optional<cost::Plan> fitToStages(const cost::SearchProblem &problem,
                                      const cost::Plan &model,
                                      const std::vector<unsigned> &stageEnds);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_STAGES_FIT_H
