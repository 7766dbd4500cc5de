//! The memory of a run: none is allocated by a step; of one that saves the state and one copy of it, whatever is saved or evaluated with averages; of a session one
//! arena, whatever is fetched; of an input that of one file, however many there are.

use std::alloc::{GlobalAlloc, Layout, System as SystemAllocator};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{Array1, Array2};
use trainspec::internals::data::{DataContext, Pipeline};
use trainspec::monitored::{InitialSession, MonitoredSession};
use trainspec::session::{Event, Options, Session};
use trainspec::train;
use trainspec::{Engine, Graph, InputView};
use trainspec_compiler::Compilation;
use trainspec_compiler::source::NoFiles;
use trainspec_formats::examples::{encode, example};
use trainspec_formats::records::{RecordWriter, WriterOptions};
use trainspec_testing::folders::Folder;

/// The system's allocator, which keeps the most bytes that were allocated at once.
struct Peak;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The allocations of this thread, and their bytes: the harness allocates in others, whenever a test ends.
    static OWN: Cell<[usize; 2]> = const { Cell::new([0, 0]) };
}

fn add(bytes: usize) {
    let [count, all] = OWN.get();
    OWN.set([count + 1, all + bytes]);
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
    let before = OWN.get();
    let later = (0..100).map(|_| step()).sum::<f32>();
    assert_eq!(OWN.get(), before);
    assert!(later < 20.0 * first);
}

/// What something on this thread allocates each time: how often, and how many bytes. The first times compile, and allocate scratch.
fn allocated(mut each: impl FnMut()) -> (usize, usize) {
    (0..5).for_each(|_| each());
    let before = OWN.get();
    (0..20).for_each(|_| each());
    let after = OWN.get();
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

#[test]
fn the_end_of_a_session_allocates_no_second_gradients() {
    let _alone = ALONE.lock();
    let text = "spec accumulated;
        model (x: f32[batch]) { param w: f32[1_000_000] = ones(); loss mean(square(w)) * mean(x); }
        train { optimizer momentum(0.1, 0.9); accumulate 2; }";
    let spec = trainspec::check("accumulated", text).unwrap();
    let mut session = Session::new(&spec, &Options::default()).unwrap();
    let prepared = [("x", InputView::new(&[2], &[1.0_f32, 2.0]))];
    session.prepare(&prepared).unwrap();
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let state = session.into_state();
    let more = PEAK.load(Ordering::Relaxed) - before;
    assert!(more < 1 << 20, "{more} bytes");
    assert_eq!(state.get("w").unwrap().shape(), [1_000_000]);
}

/// Opens the data set of some settings, with paths below a folder.
fn opened(folder: &Folder, settings: &str) -> Pipeline {
    let text = format!("spec large; data d {{ {settings} }}");
    let compilation = Compilation::check("large", &text, &NoFiles, &Default::default());
    let spec = compilation.spec.unwrap_or_else(|| panic!("{text}"));
    let options = Options {
        folder: folder.0.clone(),
        engine: trainspec::Engine::compiled(1),
        ..Options::default()
    };
    let cx = DataContext::of(&spec, &options, 0);
    Pipeline::open(&cx, &spec.data[0]).unwrap()
}

/// The most bytes that reading a data set to its end takes, once it is open, and its batches.
fn peak_of_reading(folder: &Folder, settings: &str) -> (usize, u64) {
    let mut data = opened(folder, settings);
    // The names of its files are there.
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut batches = 0;
    while data.next().unwrap().is_some() {
        batches += 1;
    }
    (PEAK.load(Ordering::Relaxed) - before, batches)
}

/// The settings of a source that lists a file N times.
fn listed(source: &str, file: &str, times: usize, rest: &str) -> String {
    let files = vec![format!("\"{file}\""); times];
    format!("source {source}([{}]); {rest}", files.join(", "))
}

#[test]
fn a_file_that_is_listed_a_hundred_times_takes_the_memory_of_one() {
    let _alone = ALONE.lock();
    let folder = Folder::new();
    // 50 records of a megabyte.
    let mut writer = RecordWriter::new(Vec::new(), &WriterOptions::default());
    let bytes = vec![7_u8; 1 << 20];
    for _ in 0..50 {
        writer
            .write(&encode(&example([("x", [&bytes[..]].into())])))
            .unwrap();
    }
    std::fs::write(folder.file("large.tfrecord"), writer.finish().unwrap()).unwrap();
    let lines = "0.25,1\n".repeat(700_000);
    std::fs::write(folder.file("large.csv"), lines).unwrap();
    for (source, file, features, times, size) in [
        (
            "tfrecord",
            "large.tfrecord",
            "feature x: u8[1_048_576]; batch 5;",
            50,
            5,
        ),
        (
            "csv",
            "large.csv",
            "feature x: f32; feature y: f32; batch 1000;",
            700_000,
            1000,
        ),
    ] {
        let once = listed(source, file, 1, features);
        // What is compiled or read once in a process is there already.
        peak_of_reading(&folder, &once);
        let (one, batches) = peak_of_reading(&folder, &once);
        assert_eq!(batches, times / size);
        let (hundred, more) = peak_of_reading(&folder, &listed(source, file, 100, features));
        assert_eq!(more, 100 * times / size);
        assert!(
            hundred as f64 <= one as f64 * 1.05,
            "{source}: {hundred} bytes, and {one} of one file"
        );
    }
}

#[test]
fn a_million_cached_records_take_little_more_than_their_numbers() {
    let _alone = ALONE.lock();
    let folder = Folder::new();
    std::fs::write(folder.file("n.csv"), "0.25,1\n".repeat(1_000_000)).unwrap();
    let settings = "source csv(\"n.csv\"); feature x: f32; feature y: f32; cache; batch 1000;";
    let (peak, batches) = peak_of_reading(&folder, settings);
    assert_eq!(batches, 1000);
    assert!(peak < 20 << 20, "{peak} bytes");
}
