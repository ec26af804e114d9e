//===- Sources.h - values that the backward pass may make again -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In the backward pass a reader has an operand per source of a value: what was
// saved, or what clones make again. In each of its signatures one of them is
// read and the others are `absent`. A decision per value thus gives the
// signatures of all readers, and says which clones are computed at all.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PROBLEM_SOURCES_H
#define TANDEM_LIB_SEARCH_TANDEM_PROBLEM_SOURCES_H

#include "Tandem/Problem/Facts.h"
#include "tandem/Cost/Changes.h"
#include <unordered_map>

namespace tandem::search {

/// Values that all readers take from one source: those of a reader whose
/// choices move together are one.
struct SourceValue {
  /// Source 0 is what was saved; per further one the clones that make it.
  std::vector<std::vector<unsigned>> makers;
  /// The tensors of source 0.
  std::vector<unsigned> saved;
  /// Operators that choose among the sources.
  std::vector<unsigned> readers;
};

/// Per value the number of its source.
using SourceChoice = std::vector<uint8_t>;

class Sources {
public:
  Sources(const Facts &facts, cost::ChangeTable &table);

  bool hasChoices() const { return !values.empty(); }
  const std::vector<SourceValue> &getValues() const { return values; }
  /// The values of which the operator chooses a source.
  std::vector<unsigned> getRead(unsigned op) const;
  /// Whether nothing has to compute the operator.
  bool isOptional(unsigned op) const { return choosers[op].isOptional; }

  /// The sources that a plan's readers take: of each value those of its last
  /// reader.
  SourceChoice read(const std::vector<unsigned> &signatures) const;
  /// Gives readers and clones the signatures of these sources; forms stay. A
  /// clone that was left out gets those that suit what is beside it, and keeps
  /// them in later calls.
  void write(const SourceChoice &choice, std::vector<unsigned> &signatures);
  /// Operators and their signatures, in order.
  using Changes = std::vector<std::pair<unsigned, unsigned>>;
  /// Begins with what `write` made.
  void setBase(const std::vector<unsigned> &signatures);
  /// What `write` changes in the base, which is of the choice `from`.
  const Changes &change(const SourceChoice &from, const SourceChoice &to,
                        const std::vector<unsigned> &base);
  /// Clones that are left out have no forms again.
  void forgetForms();
  /// Of each value how many operators read what was saved.
  std::vector<unsigned>
  countSaved(const std::vector<unsigned> &signatures) const;

private:
  static constexpr uint8_t kNone = 255;
  /// Neighbouring operands of which each signature reads one.
  struct Run {
    unsigned first, size;
  };
  /// What signatures of a set differ in: forms, and which operand of each run
  /// is read.
  struct SetChoices {
    std::vector<Run> runs;
    int absent = -1;
    std::vector<unsigned> formOf;
    std::vector<std::vector<unsigned>> ofForm;
    /// Per signature and run.
    std::vector<std::vector<uint8_t>> taken;
  };
  struct Chooser {
    bool isOptional = false;
    const SetChoices *set = nullptr;
    /// Per run its value, and the source of each operand.
    std::vector<unsigned> values;
    std::vector<std::vector<uint8_t>> sources;
    std::vector<int64_t> bytes;
  };

  const SetChoices &getSet(unsigned op);
  void findRuns(unsigned op, SetChoices &set) const;
  void sortForms(unsigned op, SetChoices &set) const;
  void addChoosers();
  void joinValues();
  void numberSources();
  unsigned findRoot(unsigned tensor);
  unsigned pick(unsigned op, unsigned form, const SourceChoice &choice) const;
  unsigned findForm(unsigned op, const std::vector<unsigned> &signatures) const;
  bool isWanted(unsigned op) const;
  unsigned choose(unsigned op, const SourceChoice &choice,
                  const std::vector<unsigned> &signatures);
  void addReads(unsigned op, unsigned signature, int sign);
  void push(unsigned op);
  static uint8_t findPlace(const std::vector<uint8_t> &sources, uint8_t wanted);

  const Facts &facts;
  cost::ChangeTable &table;
  std::unordered_map<unsigned, SetChoices> sets;
  std::vector<Chooser> choosers;
  /// Those with something to choose, the last one first.
  std::vector<unsigned> order;
  std::vector<SourceValue> values;
  /// While values are found: union-find over tensors; then source numbers.
  std::vector<unsigned> parents;
  std::vector<uint8_t> sourceOf;
  /// Whether an operator without a choice reads the tensor.
  std::vector<char> isAlwaysRead;
  /// How many of the others read it; and in which layout the first one does.
  std::vector<unsigned> numReads;
  std::vector<const cost::Layout *> wantedAs;
  /// Forms of clones that were left out.
  std::vector<int> formOfClone;
  /// While changes are found: those, operators to look at (a heap), and what
  /// `wantedAs` was.
  Changes changes;
  std::vector<unsigned> pending;
  std::vector<char> isPending;
  std::vector<std::pair<unsigned, const cost::Layout *>> oldWanted;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PROBLEM_SOURCES_H
