//===- Limits.h - sizes, budgets and shares of a search ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// When which part of the search runs, how much it may look at, and what counts
// as a gain. Budgets are amounts of work and not of time, so that equal
// problems get equal plans. *Numbers* are entries of messages and tables (about
// 10^9 in a second), *tensors* are those that an editor places anew and stages
// that it adds up (15 million in a second), *operators* are those of plans that
// are looked at as a whole (5 million in a second).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_LIMITS_H
#define TANDEM_LIB_SEARCH_TANDEM_LIMITS_H

#include "../Infinity.h"
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::search {

//===----------------------------------------------------------------------===//
// Sizes, in operators of the problem
//===----------------------------------------------------------------------===//

/// All plans are looked at up to here: beyond it that ends nowhere.
constexpr size_t kMaxExact = 120;
/// Beyond it sums look at less, with the square: sweeps are as much longer.
constexpr size_t kManySummed = 600;
/// Beyond it random changes find little for their time, and plans are taken as
/// small changes leave them.
constexpr size_t kMaxRefined = 1000;
/// Beyond it the problem without its time axis is searched but briefly.
constexpr size_t kMaxUntimed = 1200;
/// Beyond it a search has to do with less work per operator (`Facts::isLarge`).
constexpr size_t kManyOperators = 2000;

//===----------------------------------------------------------------------===//
// Shares of the cost
//===----------------------------------------------------------------------===//

/// A plan within this of the bound is optimal; descents that gain less end.
constexpr double kProven = 1e-9;
/// Plans cost the same up to this, which is rounding; and of what stands for
/// the impossible, sums are right up to this.
constexpr double kEqualCost = 1e-12, kRounding = 1e-13;
/// A plan that is so much better is tried to be proven again.
constexpr double kWorthProof = 1e-2;
/// Plans that are too large and so much cheaper are made smaller.
constexpr double kWorthShrinking = 1e-3;
/// Forms for given stages may cost so much above the best ones.
constexpr double kStagesGap = 1e-7;
/// Given plans that cost so much more than the best one are left alone.
constexpr double kNear = 0.03;
/// Forms whose weighted cost is so much above its bound are as good as the best
/// ones.
constexpr double kNearBound = 1e-2;
/// Sweeps that raise a bound by less are too many, and lead to no other forms.
/// Small problems can afford more, and who asks for a gap waits for it.
constexpr double kSlow = 1e-3, kSmallSlow = 1e-6, kAskedSlow = 1e-5;
/// A bound this near to the cost of forms is as high as messages lift it.
constexpr double kMet = 1e-6;
/// The larger of two sums is at least half of both: where plans cost so many
/// times the bound of strands, the weights are at fault.
constexpr double kFarGap = 2;

//===----------------------------------------------------------------------===//
// The relaxation
//===----------------------------------------------------------------------===//

/// Layers that are further from the ends than this many tensors are alike; and
/// where prices are compared, which takes a third of the work.
constexpr unsigned kFoldDistance = 4, kCoarseDistance = 1;
/// Tensors with more users look the same from all of them: a mask is used by
/// every layer.
constexpr size_t kManyUsers = 8;
/// Distances that exceed another one by less than this share count as that one
/// where two levels are looked at together.
constexpr double kLevelShare = 5e-3;
/// Numbers of levels that are kept: 128 MB.
constexpr size_t kMaxLevels = 16'000'000;
/// A tenth of a second, and a third of that, in numbers.
constexpr uint64_t kShortWork = 100'000'000, kBriefWork = 30'000'000;

//===----------------------------------------------------------------------===//
// Forms by the relaxation
//===----------------------------------------------------------------------===//

/// Prices that lead to good plans; seconds cost 1 if not said. Of operators and
/// collectives that every strand makes, of collectives that are made once; and
/// what a change that joins the strands costs besides, in what an operator
/// takes in the mean.
struct Guide {
  double split, collectiveOnce, collectiveSplit, joins;
};
/// Collectives at half their price, as some of them overlap; and with more
/// strands from nearly free ones to those that cost as much as computation.
constexpr Guide kGuide = {1, 0.5, 0.5, 0};
constexpr Guide kStrandGuides[] = {{0.8, 0.2, 0.2, 0.5},
                                   {0.97, 0.03, 0.03, 0.5},
                                   {1, 1, 0.1, 0},
                                   {0.5, 0.5, 0.5, 0.1},
                                   {1, 0.5, 0.2, 4}};
/// What waits costs beside plain prices, and beside guides at most.
constexpr double kWaitingPrice = 0.2, kGuidedWaiting = 0.1;
/// For a guide to plans that hold less, all bytes together cost one in so many
/// of the seconds.
constexpr double kHoldingParts = 100;
/// What is impossible costs so many times the dearest operator; a value that a
/// decision rules out, so many times that.
constexpr double kImpossible = 10;
/// Rounds of changes of single variables behind messages.
constexpr unsigned kDescentRounds = 4;

/// Folding that leaves a larger share of the variables saves little, and lets
/// some that differ share their messages.
constexpr double kWorthFolding = 0.75;
/// Sweeps for one guide: of short work at first, and of brief work as long as
/// better forms may come.
constexpr unsigned kLeastFormSweeps = 3, kFormSweeps = 12,
                   kMaxFormSweeps = 1000;
/// Prices of memory: as many as sweeps of the folded problem in brief work.
constexpr unsigned kLeastBoundRounds = 6, kMostBoundRounds = 12;
/// Numbers for one price, and sweeps.
constexpr uint64_t kPriceWork = 130'000'000;
constexpr unsigned kLeastPriceSweeps = 8, kMostPriceSweeps = 32;
/// The first price: that at which this share of the dearest plan's seconds
/// would pay for all memory. Prices that differ by less than `kNearPrice` times
/// are one.
constexpr double kFirstShare = 0.05, kPriceStep = 4, kNearPrice = 1.15;

//===----------------------------------------------------------------------===//
// The bound
//===----------------------------------------------------------------------===//

/// Numbers for the folded problem, and then for the whole one.
constexpr uint64_t kFoldedWork = 2'000'000'000, kWholeWork = 4'000'000'000;
constexpr unsigned kMaxSweeps = 80, kMaxWholeSweeps = 24;
/// More sweeps of the whole problem if they are short work, and more still
/// where a gap is asked for.
constexpr unsigned kMaxQuickSweeps = 400, kAskedSweeps = 8;
/// Sweeps of the folded problem at least; behind so many its bound is looked
/// at.
constexpr unsigned kLeastSweeps = 6, kSweepsPerBound = 8;
/// Around the best price of a byte others are tried, from far to near: of the
/// folded problem, and of the whole one.
constexpr double kPriceSteps[] = {2.0, 1.4}, kWholePriceSteps[] = {0.84, 1.19};
/// Weights of the first slot, and of later ones, that are compared.
constexpr int kWeightSteps = 20;
/// Weights that are tried; and prices of memory, with sweeps for each of them.
constexpr unsigned kMaxBounds = 5, kMemoryRounds = 5, kPriceSweeps = 16;

//===----------------------------------------------------------------------===//
// Small changes
//===----------------------------------------------------------------------===//

/// Tensors times operators: large problems ten times as large get a tenth.
/// Small ones need less: so many per operator.
constexpr uint64_t kSmallWork = 20'000'000'000, kWorkPerOperator = 150'000;
/// What new stages take, in tensors per operator.
constexpr uint64_t kDivideWork = 24;
/// Of the work that random changes get, what the descent from the best plan of
/// guides gets, and what any later one does: one in so many.
constexpr uint64_t kFirstDescent = 4, kDescent = 8;
/// Of a descent one in so many is left for changes of an operator with those
/// next to it.
constexpr uint64_t kLastShare = 4;
/// Small changes between two looks at the clock: about a millisecond.
constexpr unsigned kChangesPerLook = 256;
/// Plans of guides that descend.
constexpr size_t kMaxLeaders = 4;
/// Of the work for random changes one in so many is for each round of leaders,
/// and for the rounds of the one that is left; this share of a round is random,
/// the rest descends.
constexpr uint64_t kLeadersShare = 4, kRoundsShare = 2;
constexpr double kRandomShare = 0.75;
/// How far a cut may move, and how far from a changed one operators settle, in
/// operators.
constexpr unsigned kCutDistance = 8, kCutReach = 4;
/// A change of an operator that costs more than so many operators take is not
/// tried with those next to it: nearly none of these gains, and they would take
/// more than half of the time.
constexpr double kFarOperators = 8;
/// After so many changes all is computed anew, as rounding adds up.
constexpr unsigned kExactAfter = 64;
/// Rounds of random changes, and what a change may cost in them at first.
constexpr unsigned kRounds = 6;
constexpr std::array kHeats = {1e-3, 3e-4};
/// Where there are fewer operators, each is a larger share, and there is time
/// for more rounds.
constexpr double kHeatOperators = 400;
/// Where nothing fits: a share of the limit.
constexpr double kLargeHeat = 5e-3;
/// What a random change may cost at last, as a share of that at first.
constexpr double kCold = 0.01;
/// Shares of changes of forms, and of cuts (the others are of copies); and of
/// those of forms that take a neighbour with them.
constexpr double kFormShare = 0.6, kCutShare = 0.35, kPairShare = 0.1;
/// The whole limit of memory costs this many times the plan; and where the plan
/// does not fit, its seconds count this much of the limit.
constexpr double kMemoryPrice = 10, kLargeSeconds = 1e-3;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

/// Of the work for random changes one in so many is for the sources of a plan.
constexpr uint64_t kSourcesShare = 3;
/// Levels of what clones read that a value takes with it when it is made again.
constexpr std::array<uint8_t, 4> kSourceDepths = {0, 1, 2, 40};
/// Clones of a value, at most.
constexpr uint8_t kMaxSources = 2;
/// Shares of the limit below which values are made again before what is not
/// needed is given back.
constexpr double kSourceLimits[] = {1, 0.96, 0.92, 0.86, 0.8};

//===----------------------------------------------------------------------===//
// Forms by sums
//===----------------------------------------------------------------------===//

/// Numbers for all plans, where pieces cost nothing, and else; with less than
/// so many sweeps nothing comes of it.
constexpr uint64_t kSumWork = 40'000'000'000, kSumBoundWork = 3'000'000'000,
                   kLeastSumSweeps = 300;
/// Numbers for the stages of the best plan; and for those that are left when
/// cuts that gain nothing are gone.
constexpr uint64_t kStagesWork = 1'500'000'000, kSettledWork = 1'000'000'000;
/// Numbers that the problem without its time axis may look at for all plans
/// that the one with it leads to.
constexpr uint64_t kUntimedWork = 1'000'000'000;

/// Work where a limit of time is given, which is the only one.
constexpr uint64_t kEndlessWork = uint64_t(1) << 62;

/// Entries of all tables together (some hundred megabytes), and nodes.
constexpr uint64_t kMaxTableEntries = 1 << 24, kMaxSumNodes = 100'000;
/// Numbers that could be looked at while one entry of a table is made; and so
/// many entries are made before the clock is looked at: 25 ms.
constexpr uint64_t kEntryWork = 100, kFillWork = 1 << 18;
/// Slots of the factors that become chains where these have so much less steps
/// than there are combinations; and how often a chain is gone over for all its
/// slots.
constexpr unsigned kMinChain = 3, kChainPasses = 3;
constexpr double kChainGain = 2;
/// What costs so many times the best plan is as good as impossible; and what is
/// impossible, so many times what all operators take at most.
constexpr double kForbidden = 2, kSumForbidden = 100;
/// What making a node's model takes per factor, in numbers.
constexpr uint64_t kNodeFactorWork = 5000;
/// When less than this share of its values is left, a node is set up anew.
constexpr double kShrunkNode = 0.85;
/// Nodes that are left with their messages: some 100 KB each.
constexpr size_t kMaxMessages = 2000;
/// Means that are tried, and sweeps of messages for each of them, so many
/// before the clock is looked at: at the root and elsewhere.
constexpr unsigned kRootMeans = 60, kMeans = 8, kRootMeanSweeps = 100,
                   kMeanSweeps = 40, kSweepsAtOnce = 4;
/// Sweeps go on while some of them gain this share of the bound; and, but for
/// the root, this share of what is missing to the goal.
constexpr double kLeastGain = 1e-5, kLeastShare = 0.05;
/// How much of the best mean so far goes into the next one; nothing if the last
/// choice was known. That may be so as often before a node is done.
constexpr double kMeanCenter = 0.5;
constexpr unsigned kMaxKnown = 2;
/// The root is done when the game promises less than this share, or when so
/// many means gained less than `kLeastGain`.
constexpr double kMeanPromise = 1e-4;
constexpr unsigned kMeanPatience = 6;
/// Of choices that are mixed, what is less is none; and of what is missing to
/// the goal, what rooms must be worth to be decided.
constexpr double kLeastWeight = 1e-9, kRoomShare = 0.1;
/// Of the simplex, which has some ten rows: beyond it, it goes round in
/// circles.
constexpr unsigned kMaxPivots = 1000;
constexpr double kPivotTolerance = 1e-11;

/// Numbers for a problem where a small one gets `work`.
constexpr uint64_t getSumWork(uint64_t work, size_t numOperators) {
  double share = double(kManySummed) / double(numOperators);
  return uint64_t(double(work) * std::min(1.0, share * share));
}

//===----------------------------------------------------------------------===//
// All plans of small problems
//===----------------------------------------------------------------------===//

/// Operators of plans that are looked at: some seconds; and before the clock is
/// looked at: some milliseconds. Pairs of divisions count as one operator.
constexpr uint64_t kExactWork = 10'000'000, kQuestionWork = 10'000,
                   kPairsPerOperator = 20;
/// Divisions of a plan beyond which the search gives up; and sweeps of messages
/// before it.
constexpr unsigned kExactFront = 1000, kExactSweeps = 60;

//===----------------------------------------------------------------------===//
// Stages and cuts
//===----------------------------------------------------------------------===//

/// Divisions that are kept per operator, while plans are compared and for the
/// one that is returned; fewer for many operators: pairs that are compared, for
/// that one and for starts.
constexpr unsigned kQuickFront = 8, kCarefulFront = 256;
constexpr double kCarefulWork = 2e7, kStartWork = 2e6;
/// How often the number of kept copies between none and all is halved.
constexpr unsigned kFitRounds = 8, kLargeFitRounds = 5;

//===----------------------------------------------------------------------===//
// Ties
//===----------------------------------------------------------------------===//

/// Tensors that are looked at: a tenth of a second; and operators of plans
/// whose peak is asked for: as long again.
constexpr uint64_t kTieWork = 1'500'000, kCostWork = 300'000;

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_LIMITS_H
