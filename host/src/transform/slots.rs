//! Where instances live. A chunk gets an instance of its own, and an instance touches as much memory as a chunk has bytes and
//! more. To have the system map, fault in, clear and unmap that for each chunk costs more than most masks do: a fifth of the
//! time of a keyed hash. So wasmtime keeps the memory of a fixed number of instances, and clears it before the next one gets
//! it. As many instances may live at once, and who comes later waits: calls are CPU work, and there are many more slots than
//! cores.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::available_parallelism;

use wasmtime::PoolingAllocationConfig;

use super::limits::{MAX_INSTANCES, MAX_MEMORIES, MAX_TABLE_ELEMENTS, MAX_TABLES};

/// Instances at once, at least.
const FEWEST: usize = 16;
/// Instances at once, at most: each takes 64 GiB of the address space.
const MOST: usize = 64;
/// Instances at once, for each core.
const A_CORE: usize = 4;
/// Memory that a slot keeps for its next instance. What an instance had beyond it goes back to the system.
const KEPT_BYTES: usize = 32 << 20;
/// Bytes of wasmtime's own account of an instance. A language runtime has tens of thousands of functions in it.
const ACCOUNT_BYTES: usize = 64 << 20;

/// The places for instances of one engine, given away in the order in which they are asked for.
pub(crate) struct Slots {
    queue: Mutex<Queue>,
    moved: Condvar,
}

struct Queue {
    free: usize,
    /// The number of who asks next, and of who is served next.
    next: u64,
    served: u64,
}

/// A place for one instance, until it is dropped.
pub(crate) struct Slot(Arc<Slots>);

impl Slots {
    pub(super) fn new() -> Arc<Slots> {
        Slots::of(number())
    }

    fn of(free: usize) -> Arc<Slots> {
        let queue = Queue {
            free,
            next: 0,
            served: 0,
        };
        Arc::new(Slots {
            queue: Mutex::new(queue),
            moved: Condvar::new(),
        })
    }

    /// Waits until there is a place. A call that has begun ends at its deadline, whatever its component does.
    pub(super) fn take(self: &Arc<Self>) -> Slot {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let number = queue.next;
        queue.next += 1;
        let waits = |queue: &mut Queue| queue.free == 0 || queue.served != number;
        let waited = self.moved.wait_while(queue, waits);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        queue.free -= 1;
        queue.served += 1;
        // There may be a place for the next one as well.
        self.moved.notify_all();
        Slot(Arc::clone(self))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).free += 1;
        self.0.moved.notify_all();
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slots")
    }
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn number() -> usize {
    (A_CORE * cores()).clamp(FEWEST, MOST)
}

/// What wasmtime is to set aside, so that no instance that the limiter allows finds a slot too small or none. All of it is
/// address space, until it is used.
///
/// Memory is cleared by writing what is kept and giving back the rest. wasmtime can also ask Linux for the pages that were
/// written (`pagemap_scan`); in version 48 that misses pages which were swapped out (bytecodealliance/wasmtime#14357), and the
/// next instance would see them.
pub(super) fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::default();
    let all = |each: usize| u32::try_from(number() * each).unwrap_or(u32::MAX);
    let most = |each: usize| u32::try_from(each).unwrap_or(u32::MAX);
    pool.total_component_instances(all(1))
        .total_core_instances(all(MAX_INSTANCES))
        .total_memories(all(MAX_MEMORIES))
        .total_tables(all(MAX_TABLES))
        .max_core_instances_per_component(most(MAX_INSTANCES))
        .max_memories_per_component(most(MAX_MEMORIES))
        .max_tables_per_component(most(MAX_TABLES))
        .max_memories_per_module(most(MAX_MEMORIES))
        .max_tables_per_module(most(MAX_TABLES))
        // More than the limiter allows, so that it is asked: what does not fit here is refused without its knowing.
        .table_elements(4 * MAX_TABLE_ELEMENTS)
        .max_core_instance_size(ACCOUNT_BYTES)
        .max_component_instance_size(ACCOUNT_BYTES)
        .linear_memory_keep_resident(KEPT_BYTES)
        // Beside those in use, so many may be left with their memory for the same component before others take theirs.
        .max_unused_warm_slots(most(cores()));
    pool
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn who_finds_no_slot_waits_for_one() {
        let slots = Slots::of(2);
        let (first, _second) = (slots.take(), slots.take());
        let (taken, told) = mpsc::channel();
        let waiting = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || {
                let slot = slots.take();
                taken.send(()).unwrap();
                drop(slot);
            })
        };
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(first);
        told.recv().unwrap();
        waiting.join().unwrap();
        assert_eq!(slots.queue.lock().unwrap().free, 1);
    }

    #[test]
    fn places_are_given_in_the_order_in_which_they_were_asked_for() {
        let slots = Slots::of(1);
        let first = slots.take();
        let (taken, told) = mpsc::channel();
        let mut waiting = Vec::new();
        for number in 0..4 {
            let (slots, taken) = (Arc::clone(&slots), taken.clone());
            waiting.push(thread::spawn({
                let slots = Arc::clone(&slots);
                move || {
                    let _slot = slots.take();
                    taken.send(number).unwrap();
                }
            }));
            // The next one asks after this one has.
            while slots.queue.lock().unwrap().next < number + 2 {
                thread::yield_now();
            }
        }
        drop(first);
        assert_eq!(told.iter().take(4).collect::<Vec<u64>>(), [0, 1, 2, 3]);
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// Memory comes back as it was given the first time, whatever its last owner wrote, also beyond what is kept.
    #[test]
    fn an_instance_never_sees_what_the_one_before_it_wrote() {
        use wasmtime::{Config, Engine, Instance, Module, Store};

        let mut config = Config::new();
        config.allocation_strategy(pool());
        let engine = Engine::new(&config).unwrap();
        // 48 MiB, a part of which has content from the start. `run` gives the number of bytes that are not as they were made,
        // and leaves others everywhere.
        let module = "(module
            (memory 768)
            (data (i32.const 65536) \"sluice\")
            (func (export \"run\") (result i32) (local $at i32) (local $other i32)
              (if (i32.ne (i32.load (i32.const 65536)) (i32.const 0x69756c73)) (then (return (i32.const -1))))
              (i64.store (i32.const 65536) (i64.const 0))
              (loop $next
                (if (i32.load (local.get $at)) (then (local.set $other (i32.add (local.get $other) (i32.const 1)))))
                (i32.store (local.get $at) (i32.const -1))
                (local.set $at (i32.add (local.get $at) (i32.const 1024)))
                (br_if $next (i32.lt_u (local.get $at) (i32.const 50331648))))
              (local.get $other)))";
        let module = Module::new(&engine, wat::parse_str(module).unwrap()).unwrap();
        for _ in 0..3 * number() {
            let mut store = Store::new(&engine, ());
            let instance = Instance::new(&mut store, &module, &[]).unwrap();
            let run = instance.get_typed_func::<(), i32>(&mut store, "run").unwrap();
            assert_eq!(run.call(&mut store, ()).unwrap(), 0);
        }
    }
}
