//! `blobwise selftest` in a quick way: that its figures add up and that it says how it ended, not how fast this machine is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Output};

fn selftest(arguments: &[&str]) -> (String, Output) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_blobwise")).arg("selftest").args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (text, output)
}

/// The figure of a line such as `  + service histogram    5.5 [4.2, 6.7]`.
fn figure(line: &str) -> f64 {
    line.split('[').next().unwrap().split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn the_parts_of_a_null_op_add_up_to_the_whole() {
    let (text, output) = selftest(&["--trials", "2"]);
    let whole = text.lines().find(|line| line.starts_with("  = ")).unwrap_or_else(|| panic!("{text}"));
    let before = text.lines().take_while(|line| !line.starts_with("  = "));
    let parts: Vec<f64> = before.filter(|line| line.starts_with("  + ")).map(figure).collect();
    assert_eq!(parts.len(), 6, "{text}");
    // Every part is rounded to a tenth.
    assert!((parts.iter().sum::<f64>() - figure(whole)).abs() < 0.05 * 7.0 + 1e-9, "{text}");
    let missed = text.lines().any(|line| line.starts_with("goal") && line.contains("missed"));
    assert_eq!(output.status.code(), Some(i32::from(missed)), "{text}");
}

#[test]
fn what_was_injected_is_measured_and_the_end_is_said() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // What is twice as slow is found in few rounds; to find 10 % takes the whole budget of a run.
    let dir = home.path().to_str().unwrap();
    let (text, output) = selftest(&["--ab", "--slower", "100%", "--trials", "1", "--dir", dir]);
    let injected = text.lines().find_map(|line| line.strip_prefix("injected, as measured: "));
    let injected: f64 = injected.unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(injected >= 99.0, "{text}");
    assert_eq!(text.matches(" of 1 (goal: at least 1)").count(), 2, "{text}");
    assert_eq!(output.status.code(), Some(i32::from(!text.contains("goal met"))), "{text}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn stores_that_are_named_are_compared_with_themselves() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = home.path().to_str().unwrap();
    let (text, output) = selftest(&["--aa", "--stores", "files/flat,lmdb", "--trials", "1", "--dir", dir]);
    for store in ["files/flat\n", "lmdb\n"] {
        assert!(text.contains(store), "{text}");
    }
    assert_eq!(text.matches("called different: ").count(), 2, "{text}");
    assert_eq!(output.status.code(), Some(i32::from(!text.contains("goal met"))), "{text}");
    let refused = |arguments: &[&str], why: &str| {
        let output = selftest(&[arguments, &["--trials", "1", "--dir", dir]].concat()).1;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    };
    refused(&["--aa", "--stores", "files/flt"], "files/flat");
    refused(&["--ab", "--slower", "0.1%"], "--slower: `0.1%` is not between 1% and 100%");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}
