//! The program: everything is in the library, so that tests and benchmarks can use it.

fn main() -> std::process::ExitCode {
    blobwise::main()
}
