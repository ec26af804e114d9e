//===- OrderTest.cpp - orders and partitions as text ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MakeOrder.h"
#include "tandem/Orders/Partition.h"

using namespace tandem::orders;

static std::string readAgain(const std::string &text) {
  std::string error;
  std::optional<Order> order = parseOrder(text, "o.csv", error);
  return order ? print(*order) : error;
}

TEST(Order, ReadsWhatPythonsCsvModuleWrites) {
  EXPECT_EQ(readAgain("0F0,0I0,0W0\r\n1F0,,1B0\r\n"), "0F0,0I0,0W0\n1F0,1B0\n");
  EXPECT_EQ(readAgain(" 0F0 ,\t,\"0B0\", \" \",007F01"), "0F0,0B0,7F1\n");
  EXPECT_EQ(readAgain(",0F0,\n\n1F0"), "0F0\n\n1F0\n");
  EXPECT_EQ(readAgain("# made\n0F0\n# slow\n1F0\n# cost 2\n"), "0F0\n1F0\n");
}

TEST(Order, KeepsGroups) {
  std::string text = "0F0,(0F1;0B0)OVERLAP_F_B,(0F2;0I1)OVERLAP_F_B,0W1\n";
  EXPECT_EQ(readAgain(text), text);
  EXPECT_EQ(readAgain("(0F1 ;; 1B0)OVERLAP_F_B"), "(0F1;1B0)OVERLAP_F_B\n");
  EXPECT_EQ(readAgain("( 0F1 ; 1B0 ) OVERLAP_F_B"), "(0F1;1B0)OVERLAP_F_B\n");
  EXPECT_EQ(readAgain("(0F1)OVERLAP_F_B"), "0F1\n");
}

TEST(Order, SplitsMicrobatches) {
  std::string error;
  Order order = *parseOrder("0F0,(0F1;0B0)OVERLAP_F_B,0B1", "o", error);
  EXPECT_EQ(print(splitMicrobatches(order, 2)),
            "(0F0;0F1)OVERLAP_F_B,(0F2;0B0)OVERLAP_F_B,(0F3;0B1)OVERLAP_F_B,"
            "(0B2;0B3)OVERLAP_F_B\n");
  EXPECT_EQ(print(splitMicrobatches(order, 1)), print(order));
}

TEST(Order, KnowsTheEntriesOfItsText) {
  std::string error;
  Order order = *parseOrder(",0F0\n,,(1F0;1B0)OVERLAP_F_B,1F1", "o", error);
  EXPECT_EQ(order.points[0][0].entry, 2u);
  EXPECT_EQ(order.points[1][0].entry, 3u);
  EXPECT_EQ(order.points[1][1].entry, 3u);
  EXPECT_EQ(order.points[1][2].entry, 4u);
  EXPECT_EQ(countMicrobatches(order), 2u);
}

TEST(Order, RefusesOtherEntries) {
  const char *expected =
      ", expected a section, F, I, W or B, and a microbatch, such as 0F3";
  for (const char *text : {"0F", "F0", "0X3", "0f3", "-1F0", "0F0x", "0 F 0",
                           "0F0F1", "\"0F0", "OVERLAP_F_B", "0FORWARD1"})
    EXPECT_EQ(readAgain(std::string("0F0\n0F1,") + text),
              std::string("o.csv:2: entry 2: found '") + text + "'" + expected);
  EXPECT_EQ(readAgain("1000000F0"), "o.csv:1: entry 1: found '1000000F0', "
                                    "expected numbers below 1000000");
  EXPECT_EQ(readAgain("0F99999999999999999999"),
            "o.csv:1: entry 1: found '0F99999999999999999999', expected "
            "numbers below 1000000");
  for (const char *text :
       {"(0F1;1B0)", "(0F1;1B0", "(0F1;1B0)F", "(0F1,1B0)OVERLAP_F_B"})
    EXPECT_NE(readAgain(text).find("expected a group such as "
                                   "(0F1;1B0)OVERLAP_F_B"),
              std::string::npos)
        << readAgain(text);
  EXPECT_EQ(readAgain("( ; )OVERLAP_F_B"),
            "o.csv:1: entry 1: found the empty group '( ; )OVERLAP_F_B', "
            "expected actions in it");
  EXPECT_EQ(readAgain(" ,\n"), "o.csv:1: found no action, expected a row per "
                               "point, such as 0F0,0F1,0B0,0B1");
}

TEST(Order, RefusesCommunicationByName) {
  for (const char *text : {"0SEND_F0", "1RECV_F2", "0SEND_B0", "0RECV_B0",
                           "0UNSHARD", "0RESHARD", "0REDUCE_GRAD"})
    EXPECT_EQ(
        readAgain(text),
        std::string("o.csv:1: entry 1: found the communication action '") +
            text +
            "', expected F, I, W and B alone: transfers and gradient "
            "sums follow from them");
}

TEST(Order, OfForwardPasses) {
  EXPECT_EQ(print(makeForward({0, 1, 0}, 2, 2)), "0F0,2F0,0F1,2F1\n1F0,1F1\n");
}

TEST(Order, OfMicrobatchesInTurn) {
  EXPECT_EQ(print(makeInTurn({0, 1, 0}, 2, 2)),
            "0F0,2F0,2I0,2W0,0I0,0W0,0F1,2F1,2I1,2W1,0I1,0W1\n"
            "1F0,1I0,1W0,1F1,1I1,1W1\n");
}

TEST(Order, KnowsWhatRunsForwardFirst) {
  EXPECT_TRUE(runsForwardFirst(makeOrder("gpipe", {2, 2, 3})));
  EXPECT_TRUE(runsForwardFirst(makeForward({0, 1}, 2, 2)));
  EXPECT_FALSE(runsForwardFirst(makeOrder("1f1b", {2, 2, 3})));
}

static std::string readPartitionAgain(const std::string &text) {
  std::string error;
  std::optional<Partition> partition = parsePartition(text, "s", error);
  return partition ? print(*partition) : error;
}

TEST(Partition, ReadsItsText) {
  std::string text = "section 0 point 1 F 0.1 I 2 W 3 activations 4\n"
                     "section 1 point 0 F 5 activations 1e-05\n"
                     "edge 1 0 comm 0\n"
                     "edge 0 1 comm 0.5 no-gradient\n";
  EXPECT_EQ(readPartitionAgain(text),
            "s:4: found a cycle of sections, expected none: 0 -> 1 -> 0");
  text.replace(text.find("edge 1 0 comm 0\n"), 16, "");
  EXPECT_EQ(readPartitionAgain(text), text);
  EXPECT_EQ(readPartitionAgain("# all\n\nsection 0 W 1 point 0 F 1"),
            "s:3: found 'W', expected point");
  EXPECT_EQ(readPartitionAgain("section 0 point 0 W 2 I 1 F 1 # one\n"),
            "section 0 point 0 F 1 I 1 W 2 activations 1\n");
}

TEST(Partition, RefusesWhatIsNone) {
  const std::string one = "section 0 point 0 F 1\n";
  const std::pair<const char *, const char *> cases[] = {
      {"part 0", "s:2: found 'part', expected section or edge"},
      {"section 2 point 0 F 1", "s:2: found '2', expected 1, the next section"},
      {"section 1 point x F 1",
       "s:2: found 'x', expected a whole number from 0 to 999999"},
      {"section 1 point 0 I 1 W 1",
       "s:2: found the end of the line, expected the cost F"},
      {"section 1 point 0 F 1 I 1",
       "s:2: found the end of the line, expected both I and W, or neither of "
       "them"},
      {"section 1 point 0 F -1",
       "s:2: found '-1', expected a number from 0 to 1e+15"},
      {"section 1 point 0 F nan",
       "s:2: found 'nan', expected a number from 0 to 1e+15"},
      {"section 1 point 0 F 1 F 2", "s:2: found 'F', expected 'F' once"},
      {"section 1 point 0 F 1 U 2",
       "s:2: found 'U', expected F, I, W, B, activations, kept or sum"},
      {"section 1 point 0 F 1 I 1 W 1 B 2",
       "s:2: found the end of the line, expected B alone, or I and W"},
      {"section 1 point 2 F 1",
       "s:2: found no section on point 1, expected a section on every point"},
      {"edge 0 1", "s:2: found '1', expected the number of one of 1 sections"},
      {"edge 0 0", "s:2: found a cycle of sections, expected none: 0 -> 0"},
      {"edge 0 0\nsection 1 point 0 F 1",
       "s:3: found 'section', expected 'edge' behind the sections"},
      {"section 1 point 0 F 1\nedge 0 1\nedge 0 1",
       "s:4: found a second edge 0 1, expected one"},
      {"section 1 point 0 F 1\nedge 0 1 comm",
       "s:3: found the end of the line, expected a number from 0 to 1e+15"},
  };
  for (auto [text, error] : cases)
    EXPECT_EQ(readPartitionAgain(one + text), error);
}

/// Section 0 reads the cycle and section 4 is read by it; both are none of it.
TEST(Partition, NamesTheCycle) {
  std::string text;
  for (unsigned i = 0; i < 5; ++i)
    text += "section " + std::to_string(i) + " point 0 F 1\n";
  EXPECT_EQ(readPartitionAgain(text + "edge 3 0\nedge 1 2\nedge 2 3\n"
                                      "edge 3 1\nedge 4 1\n"),
            "s:10: found a cycle of sections, expected none: 1 -> 2 -> 3 -> "
            "1");
}
