// RUN: tandem-opt %s --tandem-assign-slots | FileCheck %s
// RUN: tandem-opt %s "--pass-pipeline=builtin.module(func.func(tandem-assign-slots{pieces=1}))" | FileCheck %s --check-prefix=ONE

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // Parameters are gathered for the stage that reads them first, in several
  // pieces, not all at the start; what a gather reads is converted a stage
  // before. A slot is a stage, a strand, and a lane: 0 is a collective, 1 one
  // that only the update waits for, 2 a computation.
  // CHECK-LABEL: func.func @ahead
  // ONE-LABEL: func.func @ahead
  func.func @ahead(%x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %v: tensor<4x8xf32>, %w: tensor<4x8xf64>) -> tensor<8x8xf32> {
    // CHECK: spmd.all_gather %arg1 {{.*}}sched.slot = array<i64: 0, 0, 0>
    // CHECK: nn.convert %arg2 {{.*}}sched.slot = array<i64: 0, 0, 2>
    // CHECK: spmd.all_gather {{.*}}sched.slot = array<i64: 1, 0, 0>
    // CHECK: nn.matmul {{.*}}sched.slot = array<i64: 0, 0, 2>
    // CHECK: nn.matmul {{.*}}sched.slot = array<i64: 1, 0, 2>
    // ONE: spmd.all_gather {{.*}}sched.slot = array<i64: 0, 0, 0>
    // ONE: nn.matmul {{.*}}sched.slot = array<i64: 0, 0, 2>
    // ONE: nn.matmul {{.*}}sched.slot = array<i64: 1, 0, 2>
    %v1 = spmd.all_gather %v over ["data"] dim 0 {nn.pass = #nn.pass<forward>, spmd.change} : tensor<4x8xf32> -> tensor<8x8xf32>
    %w0 = nn.convert %w {nn.pass = #nn.pass<forward>} : (tensor<4x8xf64>) -> tensor<4x8xf32>
    %w1 = spmd.all_gather %w0 over ["data"] dim 0 {nn.pass = #nn.pass<forward>, spmd.change} : tensor<4x8xf32> -> tensor<8x8xf32>
    %0 = nn.matmul %x, %v1 {nn.pass = #nn.pass<forward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = nn.matmul %0, %w1 {nn.pass = #nn.pass<forward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }

  // Beside strands what is gathered has the stage before, so that it is prepared
  // by the end of the one before that.
  // CHECK-LABEL: func.func @ahead_of_strands
  func.func @ahead_of_strands(%x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %u: tensor<4x8xf32>, %v: tensor<4x8xf32>, %w: tensor<4x8xf64>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    // CHECK: nn.convert %arg3 {{.*}}sched.slot = array<i64: 0, 1, 2>
    // CHECK: spmd.all_gather {{.*}}sched.slot = array<i64: 2, 0, 0>
    // CHECK: nn.matmul {{.*}}sched.slot = array<i64: 2, 1, 2>
    %u1 = spmd.all_gather %u over ["data"] dim 0 {nn.pass = #nn.pass<forward>, spmd.change} : tensor<4x8xf32> -> tensor<8x8xf32>
    %v1 = spmd.all_gather %v over ["data"] dim 0 {nn.pass = #nn.pass<forward>, spmd.change} : tensor<4x8xf32> -> tensor<8x8xf32>
    %w0 = nn.convert %w {nn.pass = #nn.pass<forward>} : (tensor<4x8xf64>) -> tensor<4x8xf32>
    %w1 = spmd.all_gather %w0 over ["data"] dim 0 {nn.pass = #nn.pass<forward>, spmd.change} : tensor<4x8xf32> -> tensor<8x8xf32>
    %a0 = nn.matmul %x, %u1 {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %a1 = nn.matmul %x, %u1 {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %b0 = nn.matmul %a0, %v1 {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %b1 = nn.matmul %a1, %v1 {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %c0 = nn.matmul %b0, %w1 {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %c1 = nn.matmul %b1, %w1 {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %c0, %c1 : tensor<8x8xf32>, tensor<8x8xf32>
  }

  // Gradients begin a new stage, so that their collectives run beside the rest
  // of the backward pass; in one piece they come at its end. They wait for a
  // stage: behind the collectives that computation needs sooner.
  // CHECK-LABEL: func.func @gradients
  // ONE-LABEL: func.func @gradients
  func.func @gradients(%x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    // CHECK: nn.matmul {{.*}}sched.slot = array<i64: 0, 0, 2>
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 2, 0, 1>
    // CHECK: nn.matmul {{.*}}sched.slot = array<i64: 1, 0, 2>
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 3, 0, 1>
    // CHECK: nn.sub {{.*}}sched.slot = array<i64: 4, 0, 2>
    // CHECK: nn.sub {{.*}}sched.slot = array<i64: 5, 0, 2>
    // ONE: spmd.all_reduce {{.*}}sched.slot = array<i64: 2, 0, 1>
    // ONE: nn.matmul {{.*}}sched.slot = array<i64: 0, 0, 2>
    // ONE: nn.sub {{.*}}sched.slot = array<i64: 3, 0, 2>
    // ONE: nn.sub {{.*}}sched.slot = array<i64: 3, 0, 2>
    %g = nn.matmul %x, %x {nn.pass = #nn.pass<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %gr = spmd.all_reduce %g over ["data"] {nn.pass = #nn.pass<backward>, spmd.change} : tensor<8x8xf32> -> tensor<8x8xf32>
    %h = nn.matmul %x, %w {nn.pass = #nn.pass<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %hr = spmd.all_reduce %h over ["data"] {nn.pass = #nn.pass<backward>, spmd.change} : tensor<8x8xf32> -> tensor<8x8xf32>
    %0 = nn.sub %w, %gr {nn.pass = #nn.pass<update>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = nn.sub %v, %hr {nn.pass = #nn.pass<update>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }

  // Where strands join, the next stage begins; it has the joined value.
  // CHECK-LABEL: func.func @join
  func.func @join(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32>, tensor<8xf32>) {
    // CHECK: nn.exp {{.*}}sched.slot = array<i64: 0, 0, 2>
    // CHECK: nn.exp {{.*}}sched.slot = array<i64: 0, 1, 2>
    // CHECK: nn.add {{.*}}sched.slot = array<i64: 0, 1, 2>
    // CHECK: nn.mul {{.*}}sched.slot = array<i64: 1, 0, 2>
    // CHECK: nn.mul {{.*}}sched.slot = array<i64: 1, 1, 2>
    %a = nn.exp %x {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    %b = nn.exp %x {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    %c = nn.add %a, %b {nn.pass = #nn.pass<forward>, spmd.change} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %0 = nn.mul %a, %c {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = nn.mul %b, %c {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }

  // A late collective, which reads what a waiting one brought, comes a stage
  // behind what it reads: so do updates where it makes the loss, also those that
  // read nothing of it.
  // CHECK-LABEL: func.func @late_loss
  func.func @late_loss(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8xf32>, %s: tensor<f32>) -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}, tensor<8xf32>) {
    // CHECK: nn.sum {{.*}}sched.slot = array<i64: 0, 0, 2>
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 2, 0, 1>
    // CHECK: nn.mul {{.*}}sched.slot = array<i64: 3, 0, 2>
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 4, 0, 0>
    // CHECK: nn.sub {{.*}}sched.slot = array<i64: 4, 0, 2>
    %l = nn.sum %x {dims = array<i64: 0>, nn.pass = #nn.pass<forward>} : (tensor<8xf32>) -> tensor<f32>
    %lr = spmd.all_reduce %l over ["data"] {nn.pass = #nn.pass<forward>, spmd.change} : tensor<f32> -> tensor<f32>
    %m = nn.mul %lr, %s {nn.pass = #nn.pass<forward>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %loss = spmd.all_reduce %m over ["data"] {nn.pass = #nn.pass<forward>, spmd.change} : tensor<f32> -> tensor<f32>
    %0 = nn.sub %w, %x {nn.pass = #nn.pass<update>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %loss, %0 : tensor<f32>, tensor<8xf32>
  }

  // CHECK-LABEL: func.func @late_norm
  func.func @late_norm(%x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 2, 0, 1>
    // CHECK: nn.sum {{.*}}sched.slot = array<i64: 3, 0, 2>
    // CHECK: spmd.all_reduce {{.*}}sched.slot = array<i64: 4, 0, 0>
    // CHECK: nn.mul {{.*}}sched.slot = array<i64: 4, 0, 2>
    // CHECK: nn.sub {{.*}}sched.slot = array<i64: 4, 0, 2>
    // CHECK: nn.sub {{.*}}sched.slot = array<i64: 3, 0, 2>
    %g = nn.matmul %x, %x {nn.pass = #nn.pass<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %gr = spmd.all_reduce %g over ["data"] {nn.pass = #nn.pass<backward>, spmd.change} : tensor<8x8xf32> -> tensor<8x8xf32>
    %n = nn.sum %gr {dims = array<i64: 0, 1>, nn.pass = #nn.pass<update>} : (tensor<8x8xf32>) -> tensor<f32>
    %norm = spmd.all_reduce %n over ["data"] {nn.pass = #nn.pass<update>, spmd.change} : tensor<f32> -> tensor<f32>
    %u = nn.mul %gr, %norm {nn.pass = #nn.pass<update>} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
    %0 = nn.sub %w, %u {nn.pass = #nn.pass<update>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = nn.sub %v, %gr {nn.pass = #nn.pass<update>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
