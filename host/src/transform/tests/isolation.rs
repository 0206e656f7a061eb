//! What one call leaves behind for another call, another table, and the host: nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::error::{Classify, ErrorKind};

/// The chain of another table whose transform is the same component.
fn other_table(bench: &Bench, spec: &TransformSpec) -> Chain {
    let shape = TableShape {
        table: "others".into(),
        capture_instance: CaptureInstance("dbo_others".into()),
        ..people()
    };
    Chain::open(&bench.engine, &shape, std::slice::from_ref(spec), &KeyRing::new(), &[]).unwrap()
}

/// Field case 20: a guest traps in batch 1 of table A. Nothing of it comes out, and neither the later batches of A nor table
/// B, which has the same component, are different from what they are without.
#[test]
fn a_trapped_instance_is_never_used_again() {
    let bench = Bench::new(&["badguest"]);
    let spec = bad("trap-at-word");
    let a = bench.open(std::slice::from_ref(&spec), &[]).unwrap();
    let b = other_table(&bench, &spec);
    let first = people_batch(&[2, 2], vec![Some("anna"), Some("trap")]);
    let clean = b.apply(&four()).unwrap().batch;
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| (0..100).all(|_| b.apply(&four()).unwrap().batch == clean));
        for _ in 0..20 {
            let error = a.apply(&first).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ComponentRefused);
            assert!(error.to_string().contains("the component trapped"), "{error}");
            for _ in 0..2 {
                assert_eq!(a.apply(&four()).unwrap().batch, clean);
            }
        }
        assert!(beside.join().unwrap());
    });
}

/// The guest traps in the first call that its instance gets: a second one on the same store would get through.
#[test]
fn a_chunk_is_tried_again_on_a_fresh_store() {
    let bench = Bench::new(&["badguest"]);
    let error = bench.fails(bad("trap-once"));
    assert!(error.to_string().contains("the component trapped"), "{error}");
    assert_eq!(error.kind(), ErrorKind::ComponentRefused);
}

/// Field case 20: the guest counts its calls in a global, and every chunk of every table is its first.
#[test]
fn two_tables_with_the_same_component_never_see_each_others_state() {
    let bench = Bench::new(&["badguest"]);
    let spec = bad("count-calls");
    let a = bench.open(std::slice::from_ref(&spec), &[]).unwrap();
    let b = other_table(&bench, &spec);
    let is_first = |chain: &Chain| texts(&chain.apply(&four()).unwrap().batch, "made") == some(&["0"; 4]);
    assert!((0..3).all(|_| is_first(&a) && is_first(&b)));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|worker| {
                let chain = if worker % 2 == 0 { &a } else { &b };
                scope.spawn(|| (0..50).all(|_| is_first(chain)))
            })
            .collect();
        assert!(workers.into_iter().all(|worker| worker.join().unwrap()));
    });
}

/// Field case 21: an infinite loop, and one worker thread. Chunks are applied as `table_stream` does it, where blocking is
/// allowed: the deadline ends the call, and until then timers and another table go on.
#[test]
fn a_spinning_guest_holds_up_nothing_but_its_own_call() {
    const DEADLINE: Duration = Duration::from_secs(2);
    let bench = Bench::new(&["badguest"]);
    let looping = TransformSpec {
        deadline: DEADLINE,
        ..bad("loop")
    };
    let spinning = bench.open(&[looping], &[]).unwrap();
    let beside = Arc::new(other_table(&bench, &bad("well")));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let applied = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&applied);
    let (error, took, ticks) = runtime.block_on(async move {
        let started = Instant::now();
        let spinning = tokio::task::spawn_blocking(move || spinning.apply(&four()));
        let other = tokio::spawn(async move {
            loop {
                let chain = Arc::clone(&beside);
                let one = tokio::task::spawn_blocking(move || chain.apply(&four()));
                one.await.unwrap().unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let timer = tokio::spawn(async move {
            let mut ticks = 0_u32;
            while started.elapsed() < DEADLINE {
                tokio::time::sleep(Duration::from_millis(20)).await;
                ticks += 1;
            }
            ticks
        });
        let error = spinning.await.unwrap().unwrap_err();
        let took = started.elapsed();
        let ticks = timer.await.unwrap();
        other.abort();
        (error, took, ticks)
    });
    assert!(error.to_string().contains("overran its deadline of 2000 ms"), "{error}");
    assert!(took >= DEADLINE, "{took:?}");
    // A busy machine is slow, not dead: of a hundred ticks and two hundred chunks some have to have happened.
    assert!(ticks >= 10, "{ticks}");
    assert!(applied.load(Ordering::Relaxed) >= 3, "{applied:?}");
}

/// Field case 22: a leaking guest over 10,000 batches, a value of 64 MB, a deep recursion. Each overrun is called by its
/// name and costs one batch, and the process has as much memory in the end as in the beginning.
#[test]
#[cfg(target_os = "linux")]
fn memory_and_stack_have_limits_and_the_hosts_stay_flat() {
    const NAME: &str = "transform::tests::isolation::memory_and_stack_have_limits_and_the_hosts_stay_flat";
    const BATCHES: usize = 10_000;
    const LEAK: usize = 256 << 10;
    // Other tests use memory too, so this one runs in a process of its own.
    if std::env::var_os("SLUICE_TEST_ALONE").is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture"])
            .env("SLUICE_TEST_ALONE", "1")
            .output()
            .unwrap();
        let told = [alone.stdout, alone.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(alone.status.success(), "{told:?}");
        assert!(told[0].contains("1 passed"), "the test has another name now: {told:?}");
        return;
    }
    let bench = Bench::new(&["badguest", "upper"]);
    let config = serde_json::json!({ "behave": "leak-memory", "bytes": LEAK });
    let leaking = bench.open(&[with_config("badguest", config)], &[]).unwrap();
    let recursing = bench.open(&[bad("recurse")], &[]).unwrap();
    let small = TransformSpec {
        memory_bytes: 16 << 20,
        ..upper()
    };
    let small = bench.open(&[small], &[]).unwrap();
    let value = "x".repeat(64 << 20);
    let large = people_batch(&[2], vec![Some(&value)]);
    let batch = four();
    let round = |batches: usize| {
        for _ in 0..batches {
            assert_eq!(leaking.apply(&batch).unwrap().filtered, 0);
        }
        for (chain, chunk, expected) in [
            (&small, &large, "overran its memory limit of 16777216 bytes"),
            (&recursing, &batch, "overran its stack of 524288 bytes"),
        ] {
            let error = chain.apply(chunk).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(small.apply(&batch).is_ok());
    };
    round(BATCHES / 10);
    let before = resident_bytes();
    for _ in 0..10 {
        round(BATCHES / 10);
    }
    let grown = resident_bytes().saturating_sub(before);
    println!("{before} bytes, and {grown} more after {BATCHES} batches");
    // What leaked is 2.6 GB.
    assert!(
        grown < 64 << 20,
        "{before} bytes, and {grown} more after {BATCHES} batches"
    );
}

/// Memory of this process that is in use.
#[cfg(target_os = "linux")]
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes << 10
}
