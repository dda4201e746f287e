//! Every command as a user types it, with all that it prints: `tests/commands/*.trycmd`. `TRYCMD=overwrite cargo test --test
//! commands` writes what the program prints now; look at the difference before committing it.

#[test]
fn commands_print_what_they_did() {
    trycmd::TestCases::new().case("tests/commands/*.trycmd");
}
