//===- IlpCopies.cpp - copies as columns ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpForms.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

void IlpForms::addCopies(unsigned index) {
  addKept(index);
  IlpTensor &tensor = tensors[index];
  for (unsigned place = 0; place < tensor.passes.size(); ++place) {
    sources.clear();
    bool isShared = !isSimple(tensor, place);
    addFromBase(index, tensor.passes[place], isShared);
    if (!isShared)
      continue;
    addFromCopies(index, tensor.passes[place]);
    limitFromCopies(index, place);
    addSupply(index, place);
    limitKept(index, place);
    addCheapest(index, place);
  }
}

/// One use, and no copy is there before it or kept behind it: a copy is made
/// exactly if the pair of layouts asks for it.
bool IlpForms::isSimple(const IlpTensor &tensor, unsigned place) const {
  const IlpPass &pass = tensor.passes[place];
  return pass.uses.size() == 1 && pass.kept.empty() &&
         (place + 1 == tensor.passes.size() ||
          tensor.passes[place + 1].kept.empty());
}

bool IlpForms::canWait(unsigned index, Pass pass) const {
  const IlpTensor &tensor = tensors[index];
  return pass == Pass::Update && tensor.stage >= 0 &&
         problem.operators[tensor.producer].pass != Pass::Update;
}

//===----------------------------------------------------------------------===//
// Kept copies
//===----------------------------------------------------------------------===//

/// Whether a copy of this layout makes another one of the pass cheaper.
bool IlpForms::isUsefulSource(unsigned index, const Layout &source,
                              const IlpPass &pass) {
  for (const Layout &wanted : pass.wanted)
    for (const IlpLayout &produced : tensors[index].produced) {
      Layout base = getBase(produced.layout, wanted, pass.pass);
      if (wanted != source && wanted != base &&
          getTotal(index, source, wanted) < getTotal(index, base, wanted))
        return true;
    }
  return false;
}

/// Columns for copies of the pass before that some later pass can use.
void IlpForms::addKept(unsigned index) {
  IlpTensor &tensor = tensors[index];
  for (size_t place = 1; place < tensor.passes.size(); ++place) {
    const IlpPass &before = tensor.passes[place - 1];
    std::set<Layout> layouts(before.wanted.begin(), before.wanted.end());
    for (auto [layout, column] : before.kept)
      layouts.insert(layout);
    auto isUseful = [&](const Layout &layout) {
      for (size_t later = place; later < tensor.passes.size(); ++later) {
        const IlpPass &pass = tensor.passes[later];
        if (std::find(pass.wanted.begin(), pass.wanted.end(), layout) !=
                pass.wanted.end() ||
            isUsefulSource(index, layout, pass))
          return true;
      }
      return false;
    };
    for (const Layout &layout : layouts)
      // What is always produced so is never copied.
      if ((tensor.produced.size() > 1 ||
           tensor.produced.front().layout != layout) &&
          isUseful(layout))
        tensor.passes[place].kept[layout] = program.addBinary();
  }
}

/// A copy is kept only if it was there, and for something.
void IlpForms::limitKept(unsigned index, unsigned place) {
  IlpTensor &tensor = tensors[index];
  const IlpPass &pass = tensor.passes[place];
  for (auto [layout, column] : pass.kept) {
    const IlpPass &before = tensor.passes[place - 1];
    Expr existed, reasons, kept{{column, 1}};
    if (auto made = before.made.find(layout); made != before.made.end())
      for (auto &[stage, expr] : made->second)
        add(existed, expr);
    if (auto earlier = before.kept.find(layout); earlier != before.kept.end())
      add(existed, {{earlier->second, 1}});
    program.addLess(kept, existed);
    for (unsigned i : pass.uses) {
      const IlpUse &use = tensor.uses[i];
      for (size_t w = 0; w < use.wanted.size(); ++w)
        if (use.wanted[w].layout == layout)
          add(reasons, use.wanted[w].chosen);
    }
    for (const Source &source : sources)
      if (source.produced < 0 && source.from == layout)
        add(reasons, source.made);
    if (place + 1 < tensor.passes.size())
      if (auto later = tensor.passes[place + 1].kept.find(layout);
          later != tensor.passes[place + 1].kept.end())
        add(reasons, {{later->second, 1}});
    program.addLess(kept, reasons);
  }
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

void IlpForms::addSource(unsigned index, IlpPass &pass, Source source) {
  Copy copy{index, source.to, pass.pass};
  pass.made[source.to].emplace_back(source.stage, source.made);
  changes.push_back({copy, source.from, source.stage, source.made,
                     table.getCost(index, source.from, source.to),
                     source.waits});
  sources.push_back(std::move(source));
}

Expr IlpForms::getUsers(unsigned index, const IlpPass &pass,
                        const Layout &wanted, unsigned stage,
                        int produced) const {
  const IlpTensor &tensor = tensors[index];
  Expr users;
  for (unsigned i : pass.uses) {
    const IlpUse &use = tensor.uses[i];
    if (use.stage != stage)
      continue;
    for (size_t p = 0; p < tensor.produced.size(); ++p)
      for (size_t w = 0; w < use.wanted.size(); ++w)
        if (use.wanted[w].layout == wanted &&
            (produced < 0 || p == static_cast<size_t>(produced)) &&
            getBase(tensor.produced[p].layout, wanted, pass.pass) != wanted)
          add(users, use.pairs[p][w]);
  }
  return users;
}

static std::set<unsigned> getStages(const IlpTensor &tensor,
                                    const IlpPass &pass) {
  std::set<unsigned> stages;
  for (unsigned use : pass.uses)
    stages.insert(tensor.uses[use].stage);
  return stages;
}

/// Copies made from what the producer gave; of gradients also such as wait.
void IlpForms::addFromBase(unsigned index, IlpPass &pass, bool isShared) {
  IlpTensor &tensor = tensors[index];
  for (const Layout &wanted : pass.wanted)
    for (unsigned stage : getStages(tensor, pass))
      for (size_t p = 0; p < tensor.produced.size(); ++p) {
        Expr users = getUsers(index, pass, wanted, stage, p);
        Layout base = getBase(tensor.produced[p].layout, wanted, pass.pass);
        double total = getTotal(index, base, wanted);
        if (users.empty() || total == kInfinity)
          continue;
        Expr made = isShared ? Expr{{program.addBinary(), 1}} : users, all;
        if (isShared)
          all = made;
        bool joins = table.getCost(index, base, wanted).joins;
        bool isFree = total == 0 && problem.memoryLimit == kNoLimit;
        if (!isFree && !joins && canWait(index, pass.pass)) {
          int column = program.addBinary();
          waitColumns.push_back({{index, wanted, pass.pass}, column});
          add(all, {{column, 1}});
          if (!isShared)
            add(made, {{column, -1}});
          addSource(index, pass,
                    {wanted, stage, static_cast<int>(p), base, total, true,
                     Expr{{column, 1}}});
        }
        if (!all.empty())
          program.addLess(all, users);
        addSource(index, pass,
                  {wanted, stage, static_cast<int>(p), base, total, false,
                   std::move(made)});
      }
}

std::vector<Layout> IlpForms::getCopyLayouts(const IlpPass &pass) const {
  std::set<Layout> layouts(pass.wanted.begin(), pass.wanted.end());
  for (auto [layout, column] : pass.kept)
    layouts.insert(layout);
  return {layouts.begin(), layouts.end()};
}

/// Copies made from other copies, where that may be cheaper.
void IlpForms::addFromCopies(unsigned index, IlpPass &pass) {
  IlpTensor &tensor = tensors[index];
  for (const Layout &wanted : pass.wanted)
    for (unsigned stage : getStages(tensor, pass)) {
      double highest = -1;
      for (size_t p = 0; p < tensor.produced.size(); ++p) {
        Layout base = getBase(tensor.produced[p].layout, wanted, pass.pass);
        if (!getUsers(index, pass, wanted, stage, p).empty())
          highest = std::max(highest, getTotal(index, base, wanted));
      }
      for (const Layout &from : getCopyLayouts(pass)) {
        double total = getTotal(index, from, wanted);
        bool canExist = pass.firstStage < stage || pass.kept.count(from);
        if (from != wanted && total < highest && canExist)
          addSource(index, pass,
                    {wanted, stage, -1, from, total, false,
                     Expr{{program.addBinary(), 1}}});
      }
    }
}

Expr IlpForms::getExisting(unsigned index, unsigned place, const Layout &layout,
                           unsigned stage) {
  IlpTensor &tensor = tensors[index];
  const IlpPass &pass = tensor.passes[place];
  Expr existing;
  if (auto made = pass.made.find(layout); made != pass.made.end())
    for (auto &[madeIn, expr] : made->second)
      if (madeIn < stage)
        add(existing, expr);
  auto kept = pass.kept.find(layout);
  if (kept == pass.kept.end())
    return existing;
  Expr column{{kept->second, 1}};
  if (tensor.passes[place - 1].lastStage >= stage) {
    // A stage with operators of both passes: the copy may be made in it.
    Expr earlier = getExisting(index, place - 1, layout, stage);
    Expr both{{program.addContinuous(0, 1), 1}}, row;
    program.addLess(both, column);
    program.addLess(both, earlier);
    add(row, column);
    add(row, earlier);
    add(row, both, -1);
    program.addRow(row, -kInfinity, 1);
    column = both;
  }
  add(existing, column);
  return existing;
}

void IlpForms::limitFromCopies(unsigned index, unsigned place) {
  const IlpPass &pass = tensors[index].passes[place];
  for (const Source &source : sources)
    if (source.produced < 0) {
      program.addLess(source.made,
                      getUsers(index, pass, source.to, source.stage, -1));
      program.addLess(source.made,
                      getExisting(index, place, source.from, source.stage));
    }
}

//===----------------------------------------------------------------------===//
// What copies have to serve
//===----------------------------------------------------------------------===//

/// Each use finds its copy, made in its stage or before; each copy is made
/// once, and not if one was kept.
void IlpForms::addSupply(unsigned index, unsigned place) {
  IlpTensor &tensor = tensors[index];
  const IlpPass &pass = tensor.passes[place];
  auto getSupply = [&](const Layout &wanted, unsigned stage, int produced) {
    Expr supply;
    for (const Source &source : sources)
      if (source.to == wanted && source.stage <= stage &&
          (produced < 0 || source.produced < 0 || source.produced == produced))
        add(supply, source.made);
    if (auto kept = pass.kept.find(wanted); kept != pass.kept.end())
      add(supply, {{kept->second, 1}});
    return supply;
  };
  for (unsigned i : pass.uses) {
    const IlpUse &use = tensor.uses[i];
    for (size_t w = 0; w < use.wanted.size(); ++w) {
      const Layout &wanted = use.wanted[w].layout;
      Expr all;
      for (size_t p = 0; p < tensor.produced.size(); ++p) {
        if (use.pairs[p][w].empty() ||
            getBase(tensor.produced[p].layout, wanted, pass.pass) == wanted)
          continue;
        add(all, use.pairs[p][w]);
        program.addLess(use.pairs[p][w], getSupply(wanted, use.stage, p));
      }
      if (!all.empty())
        program.addLess(all, getSupply(wanted, use.stage, -1));
    }
  }
  constexpr unsigned kLast = ~0u;
  for (const Layout &layout : getCopyLayouts(pass))
    program.addRow(getSupply(layout, kLast, -1), 0, 1);
}

//===----------------------------------------------------------------------===//
// The cheapest source
//===----------------------------------------------------------------------===//

/// Rows that forbid a source where a cheaper one exists. Where costs add up the
/// objective sees to that, but for copies that wait.
void IlpForms::addCheapestOf(unsigned index, unsigned place, const Layout &to,
                             unsigned stage) {
  IlpTensor &tensor = tensors[index];
  const IlpPass &pass = tensor.passes[place];
  auto forbid = [&](const Expr &existing, auto isWorse) {
    Expr worse;
    for (const Source &source : sources)
      if (source.to == to && source.stage == stage && isWorse(source))
        add(worse, source.made);
    if (worse.empty() || existing.empty())
      return false;
    add(worse, existing);
    program.addRow(worse, -kInfinity, 1);
    return true;
  };
  // The producer's layout comes before copies of equal cost.
  if (tensor.stage < static_cast<int>(stage))
    for (const IlpLayout &produced : tensor.produced) {
      double total =
          getTotal(index, getBase(produced.layout, to, pass.pass), to);
      forbid(produced.chosen, [&](const Source &source) {
        return source.produced < 0 && source.total >= total;
      });
    }
  for (const Layout &from : getCopyLayouts(pass)) {
    double total = getTotal(index, from, to);
    auto isWorse = [&](const Source &source) {
      return source.total > total && (source.waits || !addsUp);
    };
    if (from == to || std::none_of(sources.begin(), sources.end(), isWorse))
      continue;
    bool isLimited = forbid(getExisting(index, place, from, stage), isWorse);
    hasSourcesOfWaiting |= isLimited && canWait(index, pass.pass);
  }
}

void IlpForms::addCheapest(unsigned index, unsigned place) {
  std::set<std::pair<Layout, unsigned>> targets;
  for (const Source &source : sources)
    targets.insert({source.to, source.stage});
  for (const auto &[to, stage] : targets)
    addCheapestOf(index, place, to, stage);
}
