//! The thread pool runs every task once, from any caller, also when tasks panic.
#![allow(unsafe_code)] // an allocator that counts is an unsafe trait

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use trainspec_codegen::exec::pool::{MAX_THREADS, Pool};

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting the allocations of threads that have set `COUNTED`.
struct Counting;

// SAFETY: every request is handed on unchanged; the counting itself does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTED.try_with(Cell::get).unwrap_or(false) {
            ALLOCATIONS.fetch_add(1, Relaxed);
        }
        // SAFETY: the caller's promise about `layout` is the one `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Fewer rounds under Miri.
fn rounds(full: usize) -> usize {
    if cfg!(miri) { full / 1000 + 2 } else { full }
}

/// One run of `tasks` tasks; panics unless each has run once.
fn check(pool: &Pool, tasks: usize) {
    let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
    pool.run(tasks, &|task| {
        counts[task].fetch_add(1, Relaxed);
    });
    assert!(
        counts.iter().all(|count| count.load(Relaxed) == 1),
        "{counts:?}"
    );
}

/// A barrier: a run in which every thread of the pool has exactly one task, none of which returns before all have begun.
fn barrier(pool: &Pool, work: &(dyn Fn(usize) + Sync)) {
    let present = AtomicUsize::new(0);
    pool.run(pool.threads(), &|task| {
        work(task);
        present.fetch_add(1, Relaxed);
        while present.load(Relaxed) < pool.threads() {
            thread::yield_now();
        }
    });
}

/// The message of the panic that `run` ends with.
fn panic_of(run: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("the run panics");
    *payload
        .downcast::<String>()
        .expect("the payload is a string")
}

#[test]
fn every_task_runs_once() {
    for threads in 1..=3 {
        let pool = Pool::exactly(threads);
        for round in 0..rounds(100_000) {
            check(&pool, round % 64 + 1);
        }
        check(&pool, 0);
        check(&pool, rounds(100_000));
    }
}

#[test]
fn results_written_by_helpers_are_visible_to_the_caller() {
    let pool = Pool::exactly(2);
    let mut cells: Vec<std::sync::Mutex<usize>> = (0..8).map(std::sync::Mutex::new).collect();
    for _ in 0..rounds(10_000) {
        pool.run(cells.len(), &|task| *cells[task].lock().unwrap() += 1);
    }
    let values: Vec<usize> = cells
        .iter_mut()
        .map(|cell| *cell.get_mut().unwrap())
        .collect();
    assert_eq!(
        values,
        (0..8)
            .map(|start| start + rounds(10_000))
            .collect::<Vec<_>>()
    );
}

#[test]
fn all_threads_take_part_and_have_names() {
    let pool = Pool::exactly(4);
    for _ in 0..rounds(1000) {
        let names = std::sync::Mutex::new(Vec::new());
        barrier(&pool, &|_| {
            names
                .lock()
                .unwrap()
                .extend(thread::current().name().map(String::from))
        });
        let mut names = names.into_inner().unwrap();
        names.retain(|name| name.starts_with("trainspec-"));
        names.sort();
        assert_eq!(names, ["trainspec-1", "trainspec-2", "trainspec-3"]);
    }
}

#[test]
fn thread_counts_are_bounded() {
    let cores = thread::available_parallelism().unwrap().get();
    assert_eq!(Pool::new(0).threads(), 1);
    assert_eq!(Pool::new(1).threads(), 1);
    assert_eq!(Pool::new(usize::MAX).threads(), cores.min(MAX_THREADS));
    assert_eq!(Pool::exactly(3).threads(), 3);
    assert_eq!(
        panic_of(|| drop(Pool::exactly(0))),
        "a pool cannot have 0 threads"
    );
    assert_eq!(
        panic_of(|| drop(Pool::exactly(MAX_THREADS + 1))),
        "a pool cannot have 1025 threads"
    );
    assert!(catch_unwind(|| Pool::exactly(2).run(usize::MAX, &|_| ())).is_err());
}

#[test]
fn no_and_one_task_stay_on_the_caller() {
    let pool = Pool::exactly(2);
    let caller = thread::current().id();
    pool.run(0, &|_| unreachable!());
    for _ in 0..rounds(10_000) {
        pool.run(1, &|task| {
            assert_eq!((task, thread::current().id()), (0, caller))
        });
    }
}

#[test]
fn the_panic_of_the_lowest_task_arrives_after_all_tasks_and_the_pool_goes_on() {
    for threads in 1..=3 {
        let pool = Pool::exactly(threads);
        for round in 0..rounds(200) {
            let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let message = panic_of(|| {
                pool.run(20, &|task| {
                    started.fetch_add(1, Relaxed);
                    assert!(task % 7 != 3, "task {task} of round {round}");
                    ended.fetch_add(1, Relaxed);
                });
            });
            assert_eq!(message, format!("task 3 of round {round}"));
            assert_eq!((started.into_inner(), ended.into_inner()), (20, 17));
            check(&pool, 20);
        }
        assert_eq!(
            panic_of(|| pool.run(1, &|task| panic!("only {task}"))),
            "only 0"
        );
        barrier(&pool, &|_| ());
    }
}

#[test]
fn a_payload_that_panics_when_dropped_stops_nothing() {
    struct Grenade;
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let pool = Pool::exactly(2);
    for _ in 0..rounds(20) {
        let run = || pool.run(4, &|_| std::panic::panic_any(Grenade));
        std::mem::forget(catch_unwind(AssertUnwindSafe(run)).expect_err("the run panics"));
        check(&pool, 4);
    }
}

#[test]
fn nested_runs_stay_in_place() {
    let pool = Pool::exactly(3);
    for _ in 0..rounds(2000) {
        let total = AtomicUsize::new(0);
        pool.run(5, &|_| {
            let outer = thread::current().id();
            pool.run(4, &|_| {
                assert_eq!(thread::current().id(), outer);
                pool.run(3, &|_| {
                    total.fetch_add(1, Relaxed);
                });
            });
        });
        assert_eq!(total.into_inner(), 60);
    }
    let nested = || pool.run(2, &|outer| pool.run(2, &|inner| panic!("{outer}.{inner}")));
    assert_eq!(panic_of(nested), "0.0");
    check(&pool, 10);
}

#[test]
fn one_pool_inside_another() {
    let (outer, inner) = (Pool::exactly(2), Pool::exactly(2));
    for _ in 0..rounds(2000) {
        outer.run(4, &|_| check(&inner, 4));
    }
}

#[test]
fn several_callers_at_once() {
    let pool = Pool::exactly(3);
    thread::scope(|scope| {
        for caller in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                (0..rounds(10_000)).for_each(|round| check(pool, (round + caller) % 9))
            });
        }
    });
    barrier(&pool, &|_| ());
}

#[test]
fn an_oversubscribed_pool_works() {
    let pool = Pool::exactly(8);
    for round in 0..rounds(10_000) {
        check(&pool, round % 40);
    }
    barrier(&pool, &|_| ());
}

#[test]
fn sleeping_workers_are_woken_for_every_run() {
    let pool = Pool::exactly(3);
    let gaps = [0, 50, 200, 900, 1000, 1100, 3000];
    for round in 0..rounds(400) {
        // Workers fall asleep about a millisecond after the last run: runs come before, while and after they do.
        let until = Instant::now() + Duration::from_micros(gaps[round % gaps.len()]);
        while Instant::now() < until {
            thread::yield_now();
        }
        if round % 3 == 0 {
            barrier(&pool, &|_| ())
        } else {
            check(&pool, round % 5)
        }
    }
}

#[test]
fn all_workers_wake_up_although_the_caller_wakes_only_one() {
    let pool = Pool::exactly(9);
    for round in 0..rounds(50) {
        thread::sleep(Duration::from_millis(3));
        check(&pool, round % 9);
        barrier(&pool, &|_| ());
    }
}

#[test]
fn a_pool_can_be_dropped_at_any_time() {
    for round in 0..rounds(200) {
        let pool = Pool::exactly(round % 4 + 1);
        match round % 3 {
            0 => (),
            1 => check(&pool, 7),
            _ => {
                check(&pool, 7);
                thread::sleep(Duration::from_millis(3));
            }
        }
    }
}

#[test]
fn runs_do_not_allocate() {
    let pool = Pool::exactly(3);
    let run = |tasks| {
        pool.run(tasks, &|task| {
            std::hint::black_box(task);
        });
    };
    run(8);
    barrier(&pool, &|_| COUNTED.set(true));
    let before = ALLOCATIONS.load(Relaxed);
    for tasks in 0..rounds(10_000) {
        run(tasks % 50);
        if tasks % 1000 == 0 {
            thread::sleep(Duration::from_millis(3));
        }
    }
    barrier(&pool, &|_| COUNTED.set(false));
    assert_eq!(ALLOCATIONS.load(Relaxed), before);
    COUNTED.set(true);
    drop(std::hint::black_box(Box::new(1)));
    COUNTED.set(false);
    assert_eq!(ALLOCATIONS.load(Relaxed), before + 1, "the counter counts");
}
