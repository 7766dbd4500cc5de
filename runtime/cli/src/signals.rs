//! SIGINT and SIGTERM: the first ends the run after its step, the second ends the process at once. The end of standard input may count as
//! SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trainspec::StopToken;

/// The number of SIGTERM, on all systems.
const SIGTERM: usize = 15;

/// Which signal asked the run to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals(Arc<AtomicUsize>);

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail as on a full disk; by default the signal ends the process.
pub(crate) fn fail_writes_beyond_limits() {
    #[cfg(unix)]
    {
        let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
        // Without the handler the signal ends the process, as it did.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, flag);
    }
}

impl Signals {
    /// Lets signals set a stop token. A second signal exits with its code; what was saved stays.
    pub(crate) fn install(token: &StopToken) -> Signals {
        let signals = Signals::default();
        #[cfg(unix)]
        {
            use signal_hook::{consts, flag};
            for signal in [consts::SIGINT, consts::SIGTERM] {
                // In the order of registration: the second signal finds the flag that the first one set.
                let at_once =
                    flag::register_conditional_shutdown(signal, 128 + signal, token.flag());
                let number = flag::register_usize(signal, signals.0.clone(), signal as usize);
                let stop = flag::register(signal, token.flag());
                // Without handlers a signal ends the process, as it does any other.
                let _ = (at_once, number, stop);
            }
        }
        #[cfg(not(unix))]
        let _ = token;
        signals
    }

    /// Lets the end of standard input count as SIGTERM. A program that started this one and keeps its end of a pipe open stops it by closing
    /// that, also when it is killed.
    pub(crate) fn stop_at_eof(&self, token: &StopToken) {
        let (signal, token) = (self.0.clone(), token.clone());
        // It is not joined: it waits for as long as the process lives.
        std::thread::spawn(move || {
            // What is read does not matter, and an error is an end, too.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            let _ = signal.compare_exchange(0, SIGTERM, Ordering::Relaxed, Ordering::Relaxed);
            token.request_stop();
        });
    }

    /// The exit code of a run that a signal stopped, as shells give it: 130 for SIGINT, 143 for SIGTERM.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(128 + signal).ok(),
        }
    }
}
