// RUN: tandem-opt %s --tandem-verify-scheduled --split-input-file --verify-diagnostics

func.func @outside(%x: tensor<4xf32>) {
  // expected-error @+1 {{operator 'nn.exp' outside of a step, expected steps only}}
  %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @queue(%x: tensor<4xf32>) {
    %a, %e = sched.step on compute stage 0 strand 0 {
      // expected-error @+1 {{operator 'spmd.all_reduce' is on the queue 'compute', expected 'comm'}}
      %0 = spmd.all_reduce %x over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return
  }
}

// -----

func.func @comm(%x: tensor<4xf32>) {
  %a, %e = sched.step on comm stage 0 strand 0 {
    // expected-error @+1 {{operator 'nn.exp' is on the queue 'comm', expected 'compute'}}
    %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    sched.yield %0 : tensor<4xf32>
  } : tensor<4xf32>
  return
}

// -----

// A missing event.
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @event(%x: tensor<4xf32>) {
    %a, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // expected-error @+1 {{the step of stage 1, strand 0 on 'comm' reads a value of stage 0, strand 0 on 'compute', but no awaited event says that it is done}}
    %b, %f = sched.step on comm stage 1 strand 0 {
      %0 = spmd.all_reduce %a over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<time micro = 2>} {
  func.func @order(%x: tensor<4xf32>) {
    %a, %e = sched.step on compute stage 1 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // expected-error @+1 {{the step of stage 0, strand 1 comes after the one of stage 1, strand 0 on the same queue}}
    %b, %f = sched.step on compute stage 0 strand 1 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return
  }
}

// -----

func.func @update(%x: tensor<f32>, %w: tensor<f32>) -> (tensor<f32> {nn.role = #nn.role<loss>}, tensor<f32> {nn.role = #nn.role<parameter>, nn.updates = 1}) {
  // expected-error @+1 {{the step of stage 0 updates before the loss, which is made in stage 1, is known}}
  %b, %f = sched.step on compute stage 0 strand 0 {
    %0 = nn.exp %w {nn.pass = #nn.pass<update>} : (tensor<f32>) -> tensor<f32>
    sched.yield %0 : tensor<f32>
  } : tensor<f32>
  %a, %e = sched.step on compute stage 1 strand 0 {
    %0 = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<f32>) -> tensor<f32>
    sched.yield %0 : tensor<f32>
  } : tensor<f32>
  return %a, %b : tensor<f32>, tensor<f32>
}

// -----

#mesh = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @form() {
    %a, %e = sched.step on compute stage 0 strand 0 {
      // expected-error @-1 {{result 0 has the form #spmd.form<#spmd.mesh<time micro = 2>, micro: gather(0)>, expected 'full' on the time axis 'micro' behind duplex}}
      %0 = nn.iota : tensor<4xi64, #spmd.form<#mesh, micro: gather(0)>>
      sched.yield %0 : tensor<4xi64, #spmd.form<#mesh, micro: gather(0)>>
    } : tensor<4xi64, #spmd.form<#mesh, micro: gather(0)>>
    return
  }
}

// -----

func.func @region(%x: tensor<4xf32>) {
  %a, %e = sched.step on compute stage 0 strand 0 {
    // expected-error @+1 {{operator 'sched.step' in a step, expected operators of nn and spmd}}
    %b, %f = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    sched.yield %b : tensor<4xf32>
  } : tensor<4xf32>
  return
}

// -----

// A CPU has two queues; a module may have its own.
func.func @unknown_queue(%x: tensor<4xf32>) {
  // expected-error @+1 {{is on the queue 'compute[1]', expected one of the module's: 'compute', 'comm'}}
  %e = sched.step on compute[1] stage 0 strand 0 {
  }
  return
}

// -----

// What two queues compute is awaited by a third one.
module attributes {sched.queues = [#sched.queue<compute>, #sched.queue<compute[1]>, #sched.queue<compute[2]>]} {
  func.func @three(%x: tensor<4xf32>) {
    %a, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    %b, %f = sched.step on compute[1] stage 0 strand 0 {
      %0 = nn.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    // expected-error @+1 {{the step of stage 1, strand 0 on 'compute[2]' reads a value of stage 0, strand 0 on 'compute[1]', but no awaited event says that it is done}}
    %c, %g = sched.step on compute[2] stage 1 strand 0 after(%e) {
      %0 = nn.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return
  }
}

// -----

// Operators and steps are in the strands of the mesh.
module attributes {spmd.mesh = #spmd.mesh<time micro = 2>} {
  func.func @operator(%x: tensor<8xf32>) {
    %e = sched.step on compute stage 0 strand 0 {
      // expected-error @+1 {{has the strand 2, expected one of 2 from 0 on}}
      %0 = nn.neg %x {nn.strand = 2 : i64} : (tensor<8xf32>) -> tensor<8xf32>
      sched.yield
    }
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<time micro = 2>} {
  func.func @late(%x: tensor<8xf32>) {
    // expected-error @+1 {{has the strand 7, expected one of 2 from 0 on}}
    %e = sched.step on compute stage 0 strand 7 {
      %0 = nn.neg %x : (tensor<8xf32>) -> tensor<8xf32>
      sched.yield
    }
    return
  }
}

// -----

module {
  func.func @step(%x: tensor<8xf32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<8xf32>}) {
    %e = sched.step on compute stage 0 strand 0 {
      // expected-error @+1 {{nn.neg has no 'nn.pass'}}
      %0 = nn.neg %x : (tensor<8xf32>) -> tensor<8xf32>
      sched.yield
    }
    return
  }
}

// -----

module {
  // expected-error @+1 {{result 0 has no 'nn.role'}}
  func.func @step(%x: tensor<f32> {nn.name = "x", nn.role = #nn.role<input>, spmd.layout = tensor<f32>}) -> tensor<f32> {
    return %x : tensor<f32>
  }
}

// -----

func.func @loop_of_a_step(%x: tensor<4xf32>) attributes {spmd.iterations = 2 : i64} {
  %a, %e = sched.step on compute stage 0 strand 0 {
    // expected-error @+1 {{operator 'nn.exp' is in loop 0, its step in no loop}}
    %0 = nn.exp %x {spmd.loop = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    sched.yield %0 : tensor<4xf32>
  } : tensor<4xf32>
  return
}

// -----

// Each part would run all iterations.
func.func @loop_in_two_parts(%x: tensor<4xf32>) attributes {spmd.iterations = 2 : i64} {
  %a, %e = sched.step on compute stage 0 strand 0 {
    %0 = nn.exp %x {spmd.loop = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    sched.yield %0 : tensor<4xf32>
  } {spmd.loop = 0 : i64} : tensor<4xf32>
  %b, %f = sched.step on compute stage 1 strand 0 {
    %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    sched.yield %0 : tensor<4xf32>
  } : tensor<4xf32>
  // expected-error @+1 {{the step comes back to loop 0, expected the steps of a loop one behind the other}}
  %c, %g = sched.step on compute stage 2 strand 0 {
    %0 = nn.exp %a {spmd.loop = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    sched.yield %0 : tensor<4xf32>
  } {spmd.loop = 0 : i64} : tensor<4xf32>
  return
}

// -----

module attributes {sched.queues = [#sched.queue<compute>, #sched.queue<copy>]} {
  func.func @on_host(%x: tensor<4xf32> {spmd.host}) {
    %a, %e = sched.step on compute stage 0 strand 0 {
      // expected-error @+1 {{operator 'nn.exp' reads what lies on the host ('spmd.host'), expected a copy of it}}
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return
  }
}

// -----

module attributes {sched.queues = [#sched.queue<compute>, #sched.queue<copy>]} {
  func.func @on_device(%x: tensor<4xf32>) {
    %a, %e = sched.step on copy stage 0 strand 0 {
      // expected-error @+1 {{operator 'sched.from_host' reads what does not lie on the host ('spmd.host'), expected what does}}
      %0 = sched.from_host %x : tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return
  }
}

// -----

module attributes {sched.queues = [#sched.queue<compute>, #sched.queue<copy>]} {
  func.func @copies(%x: tensor<4xf32> {spmd.host}) {
    %a, %e = sched.step on compute stage 0 strand 0 {
      // expected-error @+1 {{operator 'sched.from_host' is on the queue 'compute', expected 'copy'}}
      %0 = sched.from_host %x : tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return
  }
}

// -----

module attributes {sched.queues = [#sched.queue<compute>, #sched.queue<copy>]} {
  // expected-error @+1 {{result 0 lies on the device, expected the host, where the argument lies that it updates}}
  func.func @updated(%x: tensor<4xf32>, %m: tensor<4xf32> {spmd.host}) -> (tensor<4xf32> {nn.updates = 1 : i64}) {
    %a, %e = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %0 : tensor<4xf32>
    } : tensor<4xf32>
    return %a : tensor<4xf32>
  }
}
