// RUN: tandem-opt --split-input-file --tandem-outline-kernels %s | FileCheck %s

// Equal groups are one kernel, whatever their ids and strands; products,
// collectives and views that cost nothing stay.
// CHECK-LABEL: func.func @step
// CHECK: sched.step on compute
// CHECK: %[[A:.*]] = func.call @kernel_0(%arg0) {nn.id = 1 : i64, nn.strand = 0 : i64, sched.label = "[[LABEL:.*gelu.*]]"}
// CHECK: %[[P:.*]] = sched.matmul %[[A]], %arg2
// CHECK: nn.reshape %[[P]]
// CHECK: %[[B:.*]] = func.call @kernel_0(%arg1) {nn.id = 1 : i64, nn.strand = 1 : i64, sched.label = "[[LABEL]]"}
// CHECK: sched.matmul %[[B]]
// CHECK: sched.step on comm
// CHECK: spmd.all_reduce
// CHECK: func.func private @kernel_0(%{{.*}}: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {sched.kernel}
// CHECK: nn.gelu none %{{.*}} :
// CHECK-NOT: func.func
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %w: tensor<8x1xf32>) -> (tensor<1xf32>, tensor<1x1xf32>) {
    %p, %q, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.gelu none %x {nn.id = 1 : i64, nn.strand = 0 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %1 = sched.matmul %0, %w {batch = array<i64>, m = 1, n = 1, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 1, 1>, strides_c = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<8x1xf32>) -> tensor<1x1xf32>
      %2 = nn.reshape %1 : (tensor<1x1xf32>) -> tensor<1xf32>
      %3 = nn.gelu none %y {nn.id = 1 : i64, nn.strand = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %5 = sched.matmul %3, %w {batch = array<i64>, m = 1, n = 1, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 1, 1>, strides_c = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<8x1xf32>) -> tensor<1x1xf32>
      sched.yield %2, %5 : tensor<1xf32>, tensor<1x1xf32>
    } : tensor<1xf32>, tensor<1x1xf32>
    %r, %f = sched.step on comm stage 1 strand 0 after(%e) {
      %6 = spmd.all_reduce %p over ["data"] : tensor<1xf32> -> tensor<1xf32>
      sched.yield %6 : tensor<1xf32>
    } : tensor<1xf32>
    return %r, %q : tensor<1xf32>, tensor<1x1xf32>
  }
}

// -----

// What the backward pass asks for of a value of the forward pass is made where
// it is read, and not held beside that value.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = func.call @[[FORWARD:kernel_[0-9]+]](%arg0, %arg1)
// CHECK: %[[P:.*]] = sched.matmul %[[X]], %arg2
// CHECK: func.call @[[BACKWARD:kernel_[0-9]+]](%[[X]], %[[P]])
// CHECK: func.func private @[[FORWARD]]({{.*}}) -> tensor<8x4xf32>
// CHECK: func.func private @[[BACKWARD]](
// CHECK: nn.add
// CHECK: nn.mul
module {
  func.func @step(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    %p, %q, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.add %x, %y {nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %1 = sched.matmul %0, %w {batch = array<i64>, m = 8, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %2 = nn.add %0, %0 {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %3 = nn.mul %1, %2 {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      sched.yield %1, %3 : tensor<8x4xf32>, tensor<8x4xf32>
    } : tensor<8x4xf32>, tensor<8x4xf32>
    return %p, %q : tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

// A product reads what is made of it alone, behind the kernel of what it is made
// of.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]]:2 = func.call @[[FORWARD:kernel_[0-9]+]](%arg0, %arg1)
// CHECK: sched.matmul %[[X]]#1, %arg2
// CHECK: func.func private @[[FORWARD]]({{.*}}) -> (tensor<8x4xf32>, tensor<8x4xbf16>)
module {
  func.func @step(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %w: tensor<4x4xbf16>) -> (tensor<8x4xf32>, tensor<8x4xbf16>) {
    %p, %q, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.add %x, %y {nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %1 = nn.add %0, %0 {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %2 = nn.convert %1 {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
      %3 = sched.matmul %2, %w {batch = array<i64>, m = 8, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xbf16>
      sched.yield %0, %3 : tensor<8x4xf32>, tensor<8x4xbf16>
    } : tensor<8x4xf32>, tensor<8x4xbf16>
    return %p, %q : tensor<8x4xf32>, tensor<8x4xbf16>
  }
}

// -----

// Updates read their gradients in the buffer of a joined collective by views, so
// that those of equal shapes are one kernel.
// CHECK-LABEL: func.func @step
// CHECK: sched.step on compute stage 1
// CHECK-DAG: %[[A:.*]] = nn.slice %{{.*}} {dim = 1 : i64, start = 0 : i64, stop = 4 : i64}
// CHECK-DAG: %[[V:.*]] = nn.reshape %[[A]]
// CHECK-DAG: %[[B:.*]] = nn.slice %{{.*}} {dim = 1 : i64, start = 4 : i64, stop = 8 : i64}
// CHECK-DAG: %[[W:.*]] = nn.reshape %[[B]]
// CHECK-DAG: func.call @[[UPDATE:kernel_[0-9]+]](%arg1, %[[V]])
// CHECK-DAG: func.call @[[UPDATE]](%arg2, %[[W]])
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%g: tensor<1x8xf32>, %p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %s, %e = sched.step on comm stage 0 strand 0 {
      %0 = spmd.all_reduce %g over ["data"] : tensor<1x8xf32> -> tensor<1x8xf32>
      sched.yield %0 : tensor<1x8xf32>
    } : tensor<1x8xf32>
    %r:2, %f = sched.step on compute stage 1 strand 0 after(%e) {
      %0 = nn.slice %s {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<1x8xf32>) -> tensor<1x4xf32>
      %1 = nn.reshape %0 : (tensor<1x4xf32>) -> tensor<4xf32>
      %2 = nn.sub %p, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %3 = nn.slice %s {dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<1x8xf32>) -> tensor<1x4xf32>
      %4 = nn.reshape %3 : (tensor<1x4xf32>) -> tensor<4xf32>
      %5 = nn.sub %q, %4 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %2, %5 : tensor<4xf32>, tensor<4xf32>
    } : tensor<4xf32>, tensor<4xf32>
    return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// What a kernel makes where it is read lies nowhere: a rank's positions are cut
// out of all of them in the kernel.
// CHECK-LABEL: func.func @step
// CHECK: sched.step
// CHECK-NEXT: func.call @[[KERNEL:kernel_[0-9]+]](%arg0)
// CHECK: func.func private @[[KERNEL]](
// CHECK: nn.iota
// CHECK: spmd.local_slice
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%x: tensor<4xi64>) -> tensor<4xi64> {
    %r, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.iota : tensor<8xi64>
      %1 = spmd.local_slice %0 over ["data"] dim 0 : tensor<8xi64> -> tensor<4xi64>
      %2 = nn.add %x, %1 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
      sched.yield %2 : tensor<4xi64>
    } : tensor<4xi64>
    return %r : tensor<4xi64>
  }
}

// -----

// Where a ReLU was 0 is seen in its result, which a product of the backward pass
// reads and which so is held: no mask is held beside it.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = func.call @[[FORWARD:kernel_[0-9]+]](%arg0)
// CHECK: %[[G:.*]] = sched.matmul %[[X]], %arg1
// CHECK: sched.matmul %[[X]], %[[G]]
// CHECK: %[[H:.*]] = sched.matmul %[[G]], %arg1
// CHECK: func.call @[[BACKWARD:kernel_[0-9]+]](%[[X]], %[[H]])
// CHECK: func.func private @[[FORWARD]]({{.*}}) -> tensor<4x4xf32>
// CHECK: func.func private @[[BACKWARD]](
// CHECK: nn.compare
module {
  func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %p, %q, %e = sched.step on compute stage 0 strand 0 {
      %z = nn.constant dense<0.0> : tensor<f32> -> tensor<f32>
      %0 = nn.relu %x {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = sched.matmul %0, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %2 = sched.matmul %0, %1 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 1, 4>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = sched.matmul %1, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 1, 4>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %4 = nn.compare le %0, %z {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xi1>
      %5 = nn.select %4, %z, %3 {nn.pass = #nn.pass<backward>} : (tensor<4x4xi1>, tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %2, %5 : tensor<4x4xf32>, tensor<4x4xf32>
    } : tensor<4x4xf32>, tensor<4x4xf32>
    return %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// So is what it asks for of several operators, if these are of one value.
// CHECK-LABEL: func.func @step
// CHECK: %[[H:.*]] = func.call @kernel_0(%arg0)
// CHECK: %[[P:.*]] = sched.matmul %[[H]], %arg1
// CHECK: %[[D:.*]] = sched.matmul %[[P]], %arg1
// CHECK: func.call @kernel_1(%[[H]], %[[D]])
// CHECK: func.func private @kernel_0(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: func.func private @kernel_1(
// CHECK: nn.sub
// CHECK: nn.mul
// CHECK: nn.mul
module {
  func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %q, %e = sched.step on compute stage 0 strand 0 {
      %one = nn.constant dense<1.0> : tensor<f32> -> tensor<f32>
      %0 = nn.sigmoid %x {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = sched.matmul %0, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %2 = sched.matmul %1, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 1, 4>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = nn.sub %one, %0 {nn.pass = #nn.pass<backward>} : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %4 = nn.mul %0, %3 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %5 = nn.mul %2, %4 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %5 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    return %q : tensor<4x4xf32>
  }
}

// -----

// A value that is returned, and read in another shape by what the backward pass
// makes where it is read: all of it is one kernel.
// CHECK-LABEL: func.func @step
// CHECK: sched.step
// CHECK-NEXT: %[[V:.*]]:2 = func.call @[[KERNEL:kernel_[0-9]+]](%arg0)
// CHECK: sched.yield %[[V]]#0, %[[V]]#1
// CHECK: func.func private @[[KERNEL]](
// CHECK: nn.max
// CHECK: nn.reshape
// CHECK: nn.sub
module {
  func.func @step(%x: tensor<1x2xf64>) -> (tensor<1xf64>, tensor<2xf64>) {
    %p, %q, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.abs %x {nn.pass = #nn.pass<forward>} : (tensor<1x2xf64>) -> tensor<1x2xf64>
      %1 = nn.max %0 {dims = array<i64: 1>, nn.pass = #nn.pass<forward>} : (tensor<1x2xf64>) -> tensor<1xf64>
      %2 = nn.reshape %1 {nn.pass = #nn.pass<backward>} : (tensor<1xf64>) -> tensor<1x1xf64>
      %3 = nn.sub %0, %2 {nn.pass = #nn.pass<backward>} : (tensor<1x2xf64>, tensor<1x1xf64>) -> tensor<1x2xf64>
      %4 = nn.ceil %3 {nn.pass = #nn.pass<backward>} : (tensor<1x2xf64>) -> tensor<1x2xf64>
      %5 = nn.sum %4 {dims = array<i64: 0>, nn.pass = #nn.pass<backward>} : (tensor<1x2xf64>) -> tensor<2xf64>
      sched.yield %1, %5 : tensor<1xf64>, tensor<2xf64>
    } : tensor<1xf64>, tensor<2xf64>
    return %p, %q : tensor<1xf64>, tensor<2xf64>
  }
}

// -----

// What is made again does not join the kernel of the forward pass whose result
// it reads: it would be held from there on. Nor does it wait for the kernel of
// a gradient: the product behind it reads it at once.
// CHECK-LABEL: func.func @step
// CHECK: %[[H:.*]] = func.call @kernel_0(%arg0)
// CHECK: %[[P:.*]] = sched.matmul %[[H]], %arg1
// CHECK: %[[AGAIN:.*]] = func.call @kernel_1(%[[H]])
// CHECK: sched.matmul %[[AGAIN]], %[[P]]
// CHECK: %[[D:.*]] = sched.matmul %[[P]], %arg1
// CHECK: func.call @kernel_2(%[[H]], %[[D]])
module {
  func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %p, %q, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.tanh %x {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = sched.matmul %0, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %2 = nn.exp %0 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = sched.matmul %2, %1 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 1, 4>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %4 = sched.matmul %1, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 1, 4>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %5 = nn.mul %0, %4 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %3, %5 : tensor<4x4xf32>, tensor<4x4xf32>
    } : tensor<4x4xf32>, tensor<4x4xf32>
    return %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// A kernel that also makes what the backward pass reads stands in the forward
// pass: behind what is made again it would hold that back from there on.
// CHECK-LABEL: func.func @step
// CHECK: %[[H:.*]] = func.call @kernel_0(%arg0)
// CHECK: %[[P:.*]] = sched.matmul %[[H]], %arg1
// CHECK: %[[BOTH:.*]]:2 = func.call @kernel_1(%[[P]])
// CHECK: %[[Q:.*]] = sched.matmul %[[BOTH]]#0, %arg1
// CHECK: %[[AGAIN:.*]] = func.call @kernel_2(%[[H]])
// CHECK: sched.matmul %[[Q]], %[[AGAIN]]
module {
  func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %p, %q, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.tanh %x {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = sched.matmul %0, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %2 = nn.exp %1 {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = sched.matmul %2, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %4 = nn.exp %0 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %5 = sched.matmul %3, %4 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %6 = nn.mul %2, %1 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %5, %6 : tensor<4x4xf32>, tensor<4x4xf32>
    } : tensor<4x4xf32>, tensor<4x4xf32>
    return %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// What is made again runs where it stands, also if a view of it stands at its
// reader: behind another product it would be held beside what it is made of.
// CHECK-LABEL: func.func @step
// CHECK: %[[AGAIN:.*]] = sched.matmul %arg0, %arg1
// CHECK: %[[VIEW:.*]] = nn.reshape %[[AGAIN]]
// CHECK: %[[A:.*]] = func.call @kernel_0(%[[VIEW]])
// CHECK: %[[D:.*]] = sched.matmul %arg2, %arg1
// CHECK: sched.matmul %[[D]], %[[A]]
module {
  func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %g: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %r, %e = sched.step on compute stage 0 strand 0 {
      %0 = sched.matmul %x, %w {nn.again, batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = nn.reshape %0 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
      %2 = nn.tanh %1 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
      %3 = sched.matmul %g, %w {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 1, 4>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %4 = nn.reshape %2 {nn.again, nn.pass = #nn.pass<backward>} : (tensor<2x2x4xf32>) -> tensor<4x4xf32>
      %5 = sched.matmul %3, %4 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 1, 4>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %5 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
}

// -----

// What is made again early for a product does not make at once what is read
// behind further products: the mask of a ReLU would be held until then.
// CHECK-LABEL: func.func @step
// CHECK: %[[H:.*]] = func.call @kernel_0(%arg0)
// CHECK: %[[P:.*]] = sched.matmul %[[H]], %arg1
// CHECK: %[[D:.*]] = sched.matmul %arg2, %[[P]]
// CHECK: func.call @kernel_1(%[[H]], %[[D]])
module {
  func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %g: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %r, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.relu %x {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = sched.matmul %0, %w {nn.again, batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %2 = sched.matmul %g, %1 {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = nn.constant dense<0.0> : tensor<f32> {nn.pass = #nn.pass<backward>} -> tensor<f32>
      %4 = nn.compare le %0, %3 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xi1>
      %5 = nn.select %4, %3, %2 {nn.pass = #nn.pass<backward>} : (tensor<4x4xi1>, tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %5 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
}

// -----

// Half of what a product makes does not wait for a later product in the kernel
// that reads both: the other half would be held until then.
// CHECK-LABEL: func.func @step
// CHECK: %[[P:.*]] = sched.matmul %arg0, %arg1
// CHECK: %[[HALF:.*]] = func.call @kernel_0(%[[P]])
// CHECK: %[[Q:.*]] = sched.matmul %arg0, %arg2
// CHECK: func.call @kernel_1(%[[HALF]], %[[Q]])
module {
  func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x8xf32>, %v: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %r, %e = sched.step on compute stage 0 strand 0 {
      %0 = sched.matmul %x, %w {batch = array<i64>, m = 4, n = 8, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %1 = nn.slice %0 {dim = 1 : i64, start = 0 : i64, stop = 4 : i64, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
      %2 = sched.matmul %x, %v {batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = nn.add %1, %2 {nn.pass = #nn.pass<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %3 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
}
