// RUN: tandem-opt %s --tandem-sink-again | FileCheck %s

// What is made again stands before its first reader, with what is made for it;
// what nobody reads is gone. Other operators stay.
// CHECK-LABEL: @sink
// CHECK-NEXT: nn.log
// CHECK-NEXT: %[[EXP:.*]] = nn.exp
// CHECK-NEXT: nn.neg %[[EXP]]
// CHECK-NEXT: %[[TANH:.*]] = nn.tanh %[[EXP]]
// CHECK-NEXT: nn.abs %[[TANH]]
// CHECK-NEXT: nn.sqrt %[[TANH]]
// CHECK-NEXT: return
func.func @sink(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %exp = nn.exp %x {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %tanh = nn.tanh %exp {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %unread = nn.floor %tanh {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = nn.log %x {nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.neg %exp {nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.abs %tanh {nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.sqrt %tanh {nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
