//! No failed large allocation aborts the process: each is made to fail in turn, and the call must return an error.
//!
//! Each case runs in a process of its own, because an unhandled failure aborts it. `DGMM_FAULTS=trace` shows the stack
//! of the allocation that aborted one.

mod allocator;
mod cases;

use allocator::Faults;
use std::env;
use std::process::{Command, ExitCode, Stdio};

#[global_allocator]
static ALLOCATOR: allocator::Failing = allocator::Failing;

/// Runs a case repeatedly, failing its first large allocation, then its second, until all succeed.
fn try_all(name: &str, first: usize) {
    let run = cases::named(name);
    let whole = run().expect("nothing fails yet");
    let mut count = first;
    loop {
        println!("{count}");
        let faults = Faults::at(count);
        let result = run();
        if !faults.happened() {
            break assert_eq!(result, Ok(whole), "after {count} failures the result is another");
        }
        match result {
            Err(dgmm::Error::OutOfMemory { .. }) => count += 1,
            Err(other) => panic!("allocation {count} failed with another error: {other}"),
            Ok(_) => panic!("allocation {count} failed without an error"),
        }
    }
    assert!(count > 0, "no allocation is large");
}

/// Whether the case passes in its own process, with a message.
fn passes(name: &str) -> Result<String, String> {
    let child = Command::new(env::current_exe().expect("this program has a path"))
        .args(["--case", name])
        .stderr(Stdio::piped())
        .output()
        .expect("this program starts again");
    let said = String::from_utf8_lossy(&child.stdout);
    let last = said.lines().last().unwrap_or("none");
    match child.status.success() {
        true => Ok(format!("{last} allocations")),
        false => Err(format!("allocation {last}, {}\n{}", child.status, String::from_utf8_lossy(&child.stderr))),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|flag| flag == "--case") {
        // The allocation to start from, to examine more than the first that aborts.
        let first = arguments.get(2).map_or(0, |first| first.parse().expect("a number"));
        try_all(&arguments[1], first);
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let mut code = ExitCode::SUCCESS;
    for name in cases::names().filter(|name| filter.is_none_or(|filter| name.contains(filter.as_str()))) {
        match passes(name) {
            Ok(said) => println!("test {name} ... ok ({said})"),
            Err(said) => {
                println!("test {name} ... FAILED: {said}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
