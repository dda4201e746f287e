//! The program: everything is in the library, so that tests and benchmarks can use it.

fn main() -> std::process::ExitCode {
    blobwise::host::machine::make_private();
    blobwise::host::server::supervise_if_asked()
        .or_else(blobwise::crash::cut_if_asked)
        .or_else(blobwise::host::cleanup_watchdog::tidy_up_if_asked)
        .unwrap_or_else(blobwise::cli::main)
}
