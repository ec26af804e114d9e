// RUN: tandem-opt %s --tandem-place-events --tandem-verify-scheduled | FileCheck %s
// RUN: tandem-opt %s --tandem-place-events --tandem-price-schedule 2>&1 | FileCheck %s --check-prefix=REMARK

// Of each other queue the latest step that is read is awaited, and none that an
// awaited one has awaited. The two that compute do so beside each other, and
// are slowed down by what is sent: 2 s of each at half of the speed.
// REMARK: remark: schedule 5.000000 s
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh, sched.queues = [#sched.queue<compute>, #sched.queue<comm>, #sched.queue<compute[1]>], spmd.plan = #spmd.plan<prices = <cost = 5.0 : f64, compute_slowdown = 2.0 : f64, collective_slowdown = 1.0 : f64, rates = {}>>} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4xf32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<4xf32>})
      -> (tensor<4xf32> {nn.role = #nn.role<output>, spmd.layout = tensor<4xf32>}, tensor<4xf32> {nn.role = #nn.role<output>, spmd.layout = tensor<4xf32>}) {
    // CHECK: %{{.*}}, %[[A:.*]] = sched.step on compute stage 0 strand 0 {
    %a, %ea = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<seconds = 1.0>} : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[C:.*]] = sched.step on comm stage 1 strand 0 after(%[[A]]) {
    %c, %ec = sched.step on comm stage 1 strand 0 {
      %0 = spmd.all_reduce %a over ["data"] {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<seconds = 2.0>} : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: %{{.*}}, %[[B:.*]] = sched.step on compute[1] stage 1 strand 0 after(%[[A]]) {
    %b, %eb = sched.step on compute[1] stage 1 strand 0 {
      %0 = nn.neg %a {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<seconds = 2.0>} : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on compute stage 1 strand 0 {
    %d, %ed = sched.step on compute stage 1 strand 0 {
      %0 = nn.exp %a {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<seconds = 2.0>} : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // CHECK: sched.step on compute stage 2 strand 0 after(%[[C]], %[[B]]) {
    %f, %ef = sched.step on compute stage 2 strand 0 {
      %0 = nn.add %c, %b {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<seconds = 1.0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %d, %f : tensor<4xf32>, tensor<4xf32>
  }
}
