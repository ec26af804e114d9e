//===- TandemCompletion.h - what labels cost at least -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What plans cost at least that begin as a label does. Closed slots cost what
// they cost; all others at least w_p(lambda) p + w_c(lambda) c, for every
// lambda (docs/rationale/search.md, *Bound*). What is left to do is bounded
// operator by operator: by a signature's computation, the changes that bring
// tensors that are there to it, and the least ones that its results need.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEMCOMPLETION_H
#define TANDEM_LIB_SEARCH_TANDEMCOMPLETION_H

#include "TandemLabel.h"

namespace tandem::search {

class Completion {
public:
  /// `signatures`: per operator those that it may have.
  Completion(const Facts &facts, cost::ChangeTable &table,
             const std::vector<std::vector<unsigned>> &signatures);

  /// For a label that ends behind operator `op`, in s.
  double getLeast(const Label &label, unsigned op);

private:
  /// What a second is worth.
  struct Prices {
    double computation, collective;
    /// Of changes of tensors some of which work and communicate.
    double overTime;
  };
  /// What something takes, by prices.
  struct Seconds {
    double computation = 0, collective = 0, overTime = 0;

    double get(const Prices &prices) const {
      return prices.computation * computation + prices.collective * collective +
             prices.overTime * overTime;
    }
  };
  /// The layouts in which a tensor is made or wanted, and changes between them.
  struct Distances {
    std::vector<cost::Layout> layouts; // sorted
    std::vector<double> seconds;       // per source and target
    /// Per use and source the least to a layout that it may want.
    std::vector<std::vector<double>> least;
    bool isOverTime = false;

    unsigned find(const cost::Layout &layout) const;
    double get(unsigned from, unsigned to) const {
      return seconds[from * layouts.size() + to];
    }
  };
  /// A tensor that is there, or an output that is decided, and the operator
  /// that it has to be changed for.
  struct Need {
    unsigned op, tensor, use;
    /// Of what is there: layouts.
    size_t firstSource, endSource;
    /// Of what is not made yet: the layout that is wanted.
    unsigned wanted = 0;
    bool isResult = false;
  };

  void addPrices();
  void addDistances(unsigned tensor, cost::ChangeTable &table);
  void addRest();
  double getLeastChange(unsigned tensor, const cost::Layout &from) const;
  double &getChanges(Seconds &seconds, unsigned tensor) const {
    return distances[tensor].isOverTime ? seconds.overTime : seconds.collective;
  }
  Seconds getOwn(unsigned op, unsigned signature) const;
  void addNeed(const LiveTensor &live);
  void addOutputs(const Label &label, unsigned op);
  void addChange(Seconds &seconds, const Need &need, unsigned signature) const;
  void addNeeds(const Need *begin, const Need *end, const Label &label);

  const Facts &facts;
  const std::vector<std::vector<unsigned>> &signatures;
  std::vector<Prices> prices;
  std::vector<Distances> distances; // per tensor
  /// Per operator and signature that is left.
  std::vector<std::vector<Seconds>> own;
  /// Per operator and prices the least of these, and the sum of those from an
  /// operator on.
  std::vector<std::vector<double>> least, rest;
  //--- Of the label at hand.
  std::vector<Need> needs;
  std::vector<unsigned> sources;
  std::vector<double> sums; // per prices
  Seconds later;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEMCOMPLETION_H
