// RUN: tandem-opt --tandem-verify-lowered --split-input-file --verify-diagnostics %s

// A buffer reused too early: %a is read after %b was written over it.
module attributes {sched.arena = 64 : i64} {
  func.func @step(%x: memref<16xf32>, %y: memref<16xf32>, %z: memref<16xf32>) {
    // expected-note@+1 {{the other buffer}}
    %a = sched.alloc at 0 : memref<16xf32>
    // expected-error@+1 {{buffer at bytes 0 overlaps another one that is alive at the same time, at bytes 0}}
    %b = sched.alloc at 0 : memref<16xf32>
    sched.copy %x into %a on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
    sched.copy %x into %b on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
    sched.copy %a into %y on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
    sched.copy %b into %z on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
    return
  }
}

// -----

// The event that orders the queues is missing.
module attributes {sched.arena = 128 : i64, spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @step(%x: memref<16xf32>) {
    %a = sched.alloc at 0 : memref<16xf32>
    %b = sched.alloc at 64 : memref<16xf32>
    // expected-note@+1 {{the other command}}
    sched.copy %x into %a on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
    // expected-error@+1 {{uses bytes of a buffer that another command uses at the same time: no event orders them}}
    sched.collective all_reduce %a into %b over ["data"] on comm stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
    return
  }
}

// -----

module attributes {sched.arena = 64 : i64} {
  func.func @step(%x: memref<16xf32>) {
    %a = sched.alloc at 0 : memref<16xf32>
    // expected-error@+1 {{reads a buffer that no command wrote before}}
    sched.copy %a into %x on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
    return
  }
}

// -----

module attributes {sched.arena = 64 : i64} {
  func.func @step(%x: memref<16xf32>) {
    // expected-error@+1 {{buffer lies at bytes 32 to 96 of an arena of 64}}
    %a = sched.alloc at 32 : memref<16xf32>
    return
  }
}

// -----

module attributes {sched.arena = 64 : i64} {
  func.func @step(%x: memref<16xf32>) {
    // expected-error@+1 {{buffer has no offset in the arena}}
    %a = sched.alloc : memref<16xf32>
    return
  }
}

// -----

// expected-error@+1 {{module has no attribute sched.arena}}
module {
  func.func @step() {
    return
  }
}

// -----

// A product that adds to its destination reads it.
module attributes {sched.arena = 64 : i64} {
  func.func @step(%x: memref<4x4xf32>) -> memref<4x4xf32> {
    %r = sched.result 0 : memref<4x4xf32>
    %a = sched.alloc at 0 : memref<4x4xf32>
    // expected-error @+1 {{reads a buffer that no command wrote before}}
    sched.gemm %x, %x into %a on compute stage 0 strand 0 {accumulate, batch = array<i64>, m = 4, n = 4, k = 4, strides_a = array<i64: 4, 1>, strides_b = array<i64: 4, 1>, strides_c = array<i64: 4, 1>, label = "", flops = 0, bytes = 0} : memref<4x4xf32>, memref<4x4xf32> into memref<4x4xf32>
    sched.copy %a into %r on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<4x4xf32> -> memref<4x4xf32>
    return %r : memref<4x4xf32>
  }
}

// -----

// Everything in a memory space begins at its alignment.
module attributes {sched.arena = 256 : i64} {
  func.func @step(%x: memref<16xf32>) {
    // expected-error@+1 {{buffer lies at byte 65, expected a multiple of the alignment 64}}
    %a = sched.alloc at 65 : memref<16xf32>
    return
  }
}

// -----

module attributes {sched.arena = 64 : i64} {
  // expected-error@+1 {{argument 0 has no 'nn.role'}}
  func.func @step(%x: memref<16xf32>) {
    %a = sched.alloc at 0 : memref<16xf32>
    sched.copy %x into %a on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<16xf32> -> memref<16xf32>
    return
  }
}

// -----

module attributes {sched.arena = 64 : i64} {
  func.func @step(%x: memref<4x4xf32>) -> memref<4x4xf32> {
    // expected-error @+1 {{result is 4294967296, expected one of the 1 of the step}}
    %r = sched.result 4294967296 : memref<4x4xf32>
    sched.copy %x into %r on compute stage 0 strand 0 {label = "", flops = 0, bytes = 0} : memref<4x4xf32> -> memref<4x4xf32>
    return %r : memref<4x4xf32>
  }
}
