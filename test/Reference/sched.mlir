// RUN: tandem-interpret %s --print-results | FileCheck %s

// Steps of two queues: what is awaited may be read, also by later steps of the
// queue that awaited it, and what an awaited step had awaited.
// CHECK: result/0 : tensor<4xf64>
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @step(%x: tensor<4xf64>) -> tensor<4xf64> {
    %0, %e0 = sched.step on compute stage 0 strand 0 {
      %a = nn.neg %x : (tensor<4xf64>) -> tensor<4xf64>
      sched.yield %a : tensor<4xf64>
    } : tensor<4xf64>
    %1, %e1 = sched.step on comm stage 1 strand 0 after(%e0) {
      %a = spmd.all_reduce %0 over ["data"] : tensor<4xf64> -> tensor<4xf64>
      sched.yield %a : tensor<4xf64>
    } : tensor<4xf64>
    %2, %e2 = sched.step on compute stage 1 strand 0 after(%e1) {
      %a = nn.add %0, %1 : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
      sched.yield %a : tensor<4xf64>
    } : tensor<4xf64>
    %3, %e3 = sched.step on comm stage 2 strand 0 after(%e2) {
      %a = nn.add %0, %2 : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
      sched.yield %a : tensor<4xf64>
    } : tensor<4xf64>
    %4, %e4 = sched.step on compute stage 2 strand 0 after(%e3) {
      %a = nn.add %1, %3 : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
      sched.yield %a : tensor<4xf64>
    } : tensor<4xf64>
    return %4 : tensor<4xf64>
  }
}
