//===- ExplainJson.cpp - explanation as JSON ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainTable.h"
#include "tandem/Explain/Explain.h"
#include <nlohmann/json.hpp>

using namespace tandem::cost;
using namespace tandem::explain;

using Json = nlohmann::ordered_json;

static const char *getName(Role role) {
  constexpr const char *names[] = {"stored", "input", "activation", "gradient",
                                   "update"};
  return names[static_cast<unsigned>(role)];
}

static Json writeTime(const Explanation &explanation) {
  const PlanTime &time = explanation.time;
  double hidden = time.communication - time.exposed;
  Json json{{"predicted", time.seconds},
            {"computation", time.getComputation()},
            {"forward", time.computation[0]},
            {"backward", time.computation[1]},
            {"update", time.computation[2]},
            {"sums_over_time", time.local},
            {"communication", time.communication},
            {"exposed", time.exposed},
            {"hidden_share",
             time.communication > 0 ? hidden / time.communication : 0},
            {"lower_bound", explanation.lowerBound},
            {"optimal", explanation.isOptimal}};
  if (explanation.lowerBound > 0)
    json["gap"] = getGap(time.seconds, explanation.lowerBound);
  return json;
}

static Json write(const Collective &entry) {
  return {{"kind", entry.kind},
          {"axis", entry.axis},
          {"group_size", entry.groupSize},
          {"tensor", entry.name},
          {"pass", getPassName(entry.pass)},
          {"location", entry.location},
          {"count", entry.count},
          {"bytes", entry.bytes},
          {"total_bytes", entry.totalBytes},
          {"seconds", entry.seconds},
          {"exposed", entry.exposed},
          {"hidden_share", entry.getHiddenShare()},
          {"waits", entry.waits}};
}

static Json write(const Exposure &entry) {
  return {{"cause", describe(entry.cause)},
          {"seconds", entry.seconds},
          {"slots", entry.numSlots},
          {"example", entry.example},
          {"location", entry.location}};
}

static Json write(const PeakEntry &entry, const Explanation &explanation) {
  Json json{{"kind", describe(entry.kind)}, {"tensor", entry.name},
            {"location", entry.location},   {"form", entry.form},
            {"count", entry.count},         {"bytes", entry.bytes},
            {"first_stage", entry.first},   {"last_stage", entry.last},
            {"why_held", entry.whyHeld}};
  auto add = [&](const char *key, const std::optional<Choice> &choice) {
    if (choice)
      json[key] = {
          {"added_seconds", choice->seconds - explanation.time.seconds},
          {"peak", choice->peak}};
  };
  add("without", entry.without);
  add("on_host", entry.sent);
  return json;
}

static Json write(const HostEntry &entry) {
  Json json{{"kind", entry.isStored ? "stored" : "sent"},
            {"tensor", entry.name},
            {"location", entry.location},
            {"form", entry.form},
            {"count", entry.count},
            {"bytes", entry.bytes}};
  if (entry.hasOwnCopies)
    json["seconds"] = entry.seconds;
  return json;
}

static Json write(const FormChange &change) {
  return {{"pass", getPassName(change.pass)},
          {"form", change.form},
          {"collectives", change.collectives},
          {"kept", change.isKept},
          {"waits", change.waits}};
}

static Json write(const Choice &choice, const PlanTime &time) {
  Json json{{"form", choice.form},
            {"mixed", choice.isMixed},
            {"method", choice.isSearched ? "searched" : "local estimate"},
            {"fits", choice.fits},
            {"peak", choice.peak}};
  if (choice.seconds <= 0)
    return json;
  json["seconds"] = choice.seconds;
  json["added_seconds"] = choice.seconds - time.seconds;
  json["added_computation"] = choice.computation - time.getComputation();
  json["added_exposed"] = choice.exposed - time.exposed;
  json["grown"] = choice.grown;
  json["grown_seconds"] = choice.grownSeconds;
  return json;
}

static Json write(const FormEntry &entry, const PlanTime &time) {
  Json changes = Json::array(), choices = Json::array();
  for (const FormChange &change : entry.changes)
    changes.push_back(write(change));
  for (const Choice &choice : entry.choices)
    choices.push_back(write(choice, time));
  return {{"tensor", entry.name},
          {"role", getName(entry.role)},
          {"location", entry.location},
          {"count", entry.tensors.size()},
          {"form", entry.form},
          {"bytes", entry.bytes},
          {"whole_bytes", entry.wholeBytes},
          {"forms", entry.numForms},
          {"changes", std::move(changes)},
          {"why", entry.why},
          {"next", std::move(choices)}};
}

template <typename T> static Json writeList(const std::vector<T> &list) {
  Json json = Json::array();
  for (const T &entry : list)
    json.push_back(write(entry));
  return json;
}

std::string tandem::explain::printJson(const Explanation &explanation) {
  Json forms = Json::array();
  for (const FormEntry &entry : explanation.forms)
    forms.push_back(write(entry, explanation.time));
  Json held = Json::array();
  for (const PeakEntry &entry : explanation.peakEntries)
    held.push_back(write(entry, explanation));
  Json onHost = Json::array();
  for (const HostEntry &entry : explanation.hostEntries)
    onHost.push_back(write(entry));
  Json memory{{"peak", explanation.peak},
              {"stage", explanation.peakStage},
              {"held", std::move(held)}};
  if (explanation.memoryLimit != kNoLimit)
    memory["limit"] = explanation.memoryLimit;
  if (!onHost.empty())
    memory["on_host"] = std::move(onHost);
  Json json{{"mesh", explanation.mesh},
            {"accounting", explanation.accounting},
            {"stages", explanation.numStages},
            {"stages_with_strands", explanation.numSplitStages},
            {"time", writeTime(explanation)},
            {"collectives", writeList(explanation.collectives)},
            {"exposed", writeList(explanation.exposures)},
            {"memory", std::move(memory)},
            {"forms", std::move(forms)}};
  if (!explanation.pipeline.empty())
    json["pipeline"] = explanation.pipeline;
  return json.dump(2) + "\n";
}
