// RUN: tandem-opt %s --tandem-schedule | FileCheck %s
// RUN: tandem-opt %s --tandem-schedule --tandem-lower | FileCheck %s --check-prefix=LOWER

// A value of the forward pass waits on the host: it is sent in front of the
// next library call, and fetched from its place in the text on. Its reader begins a
// step of its own, so that nothing in front of it waits for the copy.
// CHECK: sched.queues = [#sched.queue<compute>, #sched.queue<comm>, #sched.queue<copy>, #sched.queue<copy[1]>]
module {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<8x8xf32> {spmd.layout = tensor<8x8xf32>, nn.role = #nn.role<input>, nn.name = "x"},
                  %w: tensor<8x8xf32> {spmd.layout = tensor<8x8xf32>, nn.role = #nn.role<parameter>, nn.name = "w"})
      -> (tensor<8x8xf32> {spmd.layout = tensor<8x8xf32>, nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 1 : i64}) {
    // CHECK: %[[A:.*]]:2, %[[E0:.*]] = sched.step on compute
    %a = nn.matmul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %b = nn.exp %a {nn.pass = #nn.pass<forward>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: %[[H:.*]], %[[S:.*]] = sched.step on copy[1] stage 0 strand 0 after(%[[E0]])
    // CHECK: sched.to_host %[[A]]#
    %h = nn.to_host %a {nn.again, nn.pass = #nn.pass<forward>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: sched.step on compute stage 0
    // CHECK: nn.matmul
    %c = nn.matmul %b, %w {nn.pass = #nn.pass<forward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: %[[F:.*]], %[[FE:.*]] = sched.step on copy stage 0 strand 0 after(%{{.*}}, %[[S]])
    // CHECK: sched.from_host %[[H]]
    %f = nn.from_host %h {nn.again, nn.pass = #nn.pass<backward>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: sched.step on compute stage 0 strand 0 {
    // CHECK-NEXT: nn.matmul
    // CHECK-NEXT: sched.yield
    %d = nn.matmul %c, %c {nn.pass = #nn.pass<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: sched.step on compute stage 0 strand 0 after(%[[FE]])
    // CHECK: nn.mul %{{.*}}, %[[F]]
    %g = nn.mul %d, %f {nn.pass = #nn.pass<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %u = nn.sub %w, %g {nn.pass = #nn.pass<update>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %u : tensor<8x8xf32>
  }
}

// LOWER: sched.host_arena = 256
// LOWER: %[[M:.*]] = sched.alloc at 0 {sched.host} : memref<8x8xf32>
// LOWER: sched.copy %{{.*}} into %[[M]] on copy[1]
// LOWER: sched.copy %[[M]] into %{{.*}} on copy stage
