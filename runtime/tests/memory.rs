//! The memory of a run: none is allocated by a step; of one that saves the state and one copy of it, whatever is saved or evaluated with averages; of a session one
//! arena, whatever is fetched.

use std::alloc::{GlobalAlloc, Layout, System as SystemAllocator};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{Array1, Array2};
use trainspec::monitored::{InitialSession, MonitoredSession};
use trainspec::session::{Event, Options, Session};
use trainspec::train;
use trainspec::{Engine, Graph, InputView};
use trainspec_compiler::Compilation;
use trainspec_compiler::source::NoFiles;
use trainspec_testing::folders::Folder;

/// The system's allocator, which keeps the most bytes that were allocated at once.
struct Peak;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
/// The bytes of all allocations.
static BYTES: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes, Ordering::Relaxed);
    let now = ALLOCATED.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

#[allow(unsafe_code)] // a global allocator cannot be written without
// SAFETY: all calls are passed on as they are.
unsafe impl GlobalAlloc for Peak {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract of the system's allocator.
        unsafe { SystemAllocator.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as above.
        unsafe { SystemAllocator.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { SystemAllocator.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { SystemAllocator.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Peak = Peak;

/// 4 million parameters with two slots and an average each: 64 MB.
const SPEC: &str = r#"
spec large;
data points { source csv("points.csv"); feature x: f32; repeat; batch 2; }
data seen { source csv("points.csv"); feature x: f32; batch 2; }
model (x: f32[batch]) {
    param w: f32[4_000_000] = ones();
    loss mean(square(w)) * mean(x);
}
train { data points; optimizer adam(learning_rate: 0.01); ema (decay: 0.9); steps 9; }
eval { data seen; every 2 steps; with ema; }
hooks { checkpoint (dir: "DIR", every: 2 steps, keep: 2); }
"#;

/// Tests here measure what the whole process allocates, so they take turns.
static ALONE: Mutex<()> = Mutex::new(());

trainspec::train! {
    spec counted;

    model (x: f32[batch, 8], y: f32[batch]) {
        let guess = dense(x, 1)[_, 0];
        loss mean(square(guess - y));
        metric error = abs(guess - y);
    }

    train { optimizer adam(1e-3); }
}

#[test]
fn a_step_through_the_module_of_the_macro_allocates_nothing() {
    let _alone = ALONE.lock();
    let (x, y) = (Array2::<f32>::ones((16, 8)), Array1::<f32>::zeros(16));
    let mut session = counted::Session::builder().threads(1).build().unwrap();
    let feeds = counted::Feeds {
        x: x.view(),
        y: y.view(),
    };
    let mut step = || {
        let out = session.step(&feeds).unwrap();
        out.loss + out.error.sum()
    };
    // The first ones compile, and allocate scratch.
    let first = (0..5).map(|_| step()).sum::<f32>();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let later = (0..100).map(|_| step()).sum::<f32>();
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    assert!(later < 20.0 * first);
}

/// What something allocates each time: how often, and how many bytes. The first times compile, and allocate scratch.
fn allocated(mut each: impl FnMut()) -> (usize, usize) {
    (0..5).for_each(|_| each());
    let counts = || [&ALLOCATIONS, &BYTES].map(|count| count.load(Ordering::Relaxed));
    let before = counts();
    (0..20).for_each(|_| each());
    let after = counts();
    let all = [0, 1].map(|i| after[i] - before[i]);
    assert!(all.iter().all(|count| count % 20 == 0), "{all:?}");
    (all[0] / 20, all[1] / 20)
}

#[test]
fn runs_allocate_nothing_that_grows_with_the_model() {
    let _alone = ALONE.lock();
    let sizes = [8, 80_000].map(|size| {
        let text = format!(
            "spec sized; model (x: f32[batch, {size}], y: f32[batch]) {{
                 param w: f32[{size}] = ones();
                 loss mean(square(sum(x * w, axis: 1) - y));
             }}
             train {{ optimizer adam(1e-3); }}"
        );
        let spec = trainspec::check("sized", &text).unwrap();
        let options = Options {
            engine: Engine::compiled(1),
            ..Options::default()
        };
        let (x, y, shape) = (vec![0.5_f32; 4 * size], [1.0_f32; 4], [4, size]);
        let feeds = [
            ("x", InputView::new(&shape, &x)),
            ("y", InputView::new(&[4], &y)),
        ];
        let mut session = Session::new(&spec, &options).unwrap();
        // The results of a step are references to buffers that the next one takes.
        let step = allocated(|| assert!(session.step(&feeds).is_ok()));
        assert_eq!(step, (0, 0));
        let run = allocated(|| drop(session.run("train_op", &feeds).unwrap()));
        let loss = allocated(|| drop(session.run(("train_op", "loss"), &feeds).unwrap()));
        // What is fetched is given away, so it is copied.
        let fetched = allocated(|| drop(session.run("w", &feeds).unwrap()));
        assert!(fetched.1 >= 4 * size, "{fetched:?}");
        let creator = Box::new(InitialSession { options });
        let graph = Graph::new(&spec);
        let mut monitored = MonitoredSession::new(graph, creator, Vec::new()).unwrap();
        let monitored = allocated(|| drop(monitored.run("train_op", &feeds).unwrap()));
        [run, loss, monitored]
    });
    assert_eq!(sizes[0], sizes[1]);
    // Lists of targets and values: a few hundred bytes.
    assert!(
        sizes[0].iter().all(|(_, bytes)| *bytes < 2_000),
        "{sizes:?}"
    );
}

#[test]
fn programs_of_a_session_share_one_arena() {
    let _alone = ALONE.lock();
    let text = "spec wide;
        model (x: f32[batch, 64]) {
            let a = sort(x @ transpose(x), axis: 1);
            let b = sort(a @ a, axis: 1);
            let top = sum(a, axis: 1);
            let sharp = sum(b, axis: 1);
            loss mean(dense(expand_dims(top + sharp, axis: 1), 1));
        }
        train { optimizer gradient_descent(0.1); }";
    let spec = trainspec::check("wide", text).unwrap();
    let mut session = Session::new(&spec, &Options::default()).unwrap();
    let x = vec![0.01_f32; 1024 * 64];
    let feeds = [("x", InputView::new(&[1024, 64], &x))];
    session.step(&feeds).unwrap();
    let arena = session.specialised()[0].bytes;
    assert!(arena > 8 << 20, "{arena}");
    let before = ALLOCATED.load(Ordering::Relaxed);
    session.run(("train_op", "top"), &feeds).unwrap();
    session.run(("train_op", "sharp"), &feeds).unwrap();
    session.run("top", &feeds).unwrap();
    session.eval(&feeds).unwrap();
    let more = ALLOCATED.load(Ordering::Relaxed).saturating_sub(before);
    assert_eq!(session.specialised().len(), 4);
    assert!(
        more < arena / 2,
        "{more} bytes more than an arena of {arena}"
    );
}

#[test]
fn saving_and_evaluating_averages_take_one_copy_of_the_state() {
    let _alone = ALONE.lock();
    let folder = Folder::new();
    folder.write("points.csv", b"1\n2\n3\n4\n");
    let dir = folder.0.join("run");
    let text = SPEC.replace("DIR", dir.to_str().unwrap());
    let compilation = Compilation::check("large", &text, &NoFiles, &Default::default());
    let spec = compilation.spec.expect("a good spec");
    let options = Options {
        folder: folder.0.clone(),
        ..Options::default()
    };
    let mut saves = 0;
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let state = train(&spec, &options, &mut |event: &Event| {
        saves += u32::from(matches!(event, Event::Saved { .. }));
    });
    let state = state.unwrap();
    assert_eq!((state.step(), saves), (9, 5));
    let taken = PEAK.load(Ordering::Relaxed) - before;
    let values = state.values().iter().map(|value| value.ty().bytes());
    let expected = usize::try_from(values.sum::<u64>()).unwrap();
    assert!(expected > 60_000_000, "{expected}");
    // Code, buffers of files and the batch besides.
    let small = 8 << 20;
    assert!(
        taken <= 2 * expected + small,
        "{taken} bytes for a state of {expected}"
    );
}
