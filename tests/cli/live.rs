//! The view of a run that a terminal has, looked at in a terminal of 80 columns and 24 lines: it never wraps, and nothing is left of it.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::program::{BLOBWISE, Outcome, Work, finish, start};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a terminal shows where candidates stand, and nothing of it is left", seen),
        Trial::test("Ctrl-C leaves a terminal clean", interrupted),
        Trial::test("a pipe, a dumb terminal and --no-live have plain lines", plain),
        Trial::test("a terminal has all tables through $PAGER, or without it where there is none", paged),
    ]
}

/// Each visit takes a second: the view has a share of the run's time, and is not drawn where it has taken more of the processor's.
const RUN: &str =
    "run --stores files/hashed,sqlite --corpus fixed:1kB --blobs 1000 --phases fill,read-warm --out out";
const COLUMNS: u16 = 80;
const LINES: u16 = 24;

/// What such a terminal shows.
fn parser() -> vt100::Parser {
    let of = |size| std::num::NonZero::new(size).unwrap();
    vt100::Parser::new(of(LINES), of(COLUMNS), 0)
}

/// A terminal and its other end.
fn terminal() -> (File, File) {
    let other = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&other).unwrap();
    unlockpt(&other).unwrap();
    let name = ptsname(&other, Vec::new()).unwrap();
    let terminal =
        rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_col: COLUMNS, ws_row: LINES, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(terminal), File::from(other))
}

/// What a command writes to a terminal as its progress, piece by piece, and how it ends.
fn watched(mut command: Command, look: impl FnMut(&mut File, &[u8])) -> Option<i32> {
    let (terminal, other) = terminal();
    command.stdin(terminal.try_clone().unwrap()).stderr(terminal).stdout(Stdio::null());
    read(command, other, look)
}

/// What a command writes to a terminal with this other end, piece by piece, and how it ends.
fn read(mut command: Command, mut other: File, mut look: impl FnMut(&mut File, &[u8])) -> Option<i32> {
    let mut child = start(&mut command);
    // The other end ends when nobody has the terminal open.
    drop(command);
    let mut piece = [0; 4096];
    while let Ok(bytes @ 1..) = other.read(&mut piece) {
        look(&mut other, &piece[..bytes]);
    }
    child.wait().unwrap().code()
}

/// The lines of the view, from its table's title on; none of them goes on in the next one.
fn view(screen: &vt100::Screen) -> Option<String> {
    let lines: Vec<String> = screen.rows(0, COLUMNS).collect();
    let is_title = |line: &String| {
        ["The first figures come", "One round so far", "No candidate can be", "Time of an op over"]
            .iter()
            .any(|title| line.starts_with(title))
    };
    let begin = lines.iter().position(is_title)?;
    let end = begin
        + lines[begin..].iter().position(|line| line.starts_with("round ") || line.starts_with("pilot: "))?;
    let wrapped = (begin..=end).find(|line| screen.row_wrapped(*line as u16));
    assert_eq!(wrapped, None, "{}", lines.join("\n"));
    Some(lines[begin..=end].join("\n"))
}

fn seen() -> Outcome {
    let work = Work::new();
    let mut command = work.command(BLOBWISE);
    command
        .args(RUN.split(' '))
        .args(["--rounds", "3", "--no-drop-caches"])
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    let (mut parser, mut views, mut told) = (parser(), Vec::new(), Vec::new());
    let code = watched(command, |_, piece| told.extend_from_slice(piece));
    assert_eq!(code, Some(0));
    let told = String::from_utf8_lossy(&told);
    // Each as it was drawn, which ends so, however many of them a busy machine reads at once.
    for drawn in told.split_inclusive("\x1b[?7h") {
        parser.process(drawn.as_bytes());
        views.extend(view(parser.screen()));
    }
    assert!(!told.contains("\x1b[3"), "colours that NO_COLOR forbids");
    let has = |words: &[&str]| views.iter().any(|view| words.iter().all(|word| view.contains(word)));
    for words in [
        ["The first figures come when two rounds are through.", "> ", "round 1/3: "],
        ["One round so far: figures come with the second.", "> sqlite", "round 2/3: sqlite: read-warm"],
        ["± with 95 % confidence after 2 rounds", "best", "round 3/3: "],
        ["] 4/6  about ", "±", " left"],
    ] {
        assert!(has(&words), "{words:?} was not to be seen in\n{}", views.join("\n\n"));
    }
    let left = parser.screen().contents();
    assert!(
        left.starts_with("Stores lie in") && !left.contains("round") && !left.contains("sqlite"),
        "{left}"
    );
    assert_eq!(parser.screen().cursor_position().1, 0);
    Ok(())
}

fn interrupted() -> Outcome {
    let work = Work::new();
    let mut command = work.command("setsid");
    command.args(["--ctty", "--wait", BLOBWISE]).args(RUN.split(' '));
    command.args(["--rounds", "90", "--no-drop-caches"]).env("TERM", "xterm");
    let mut parser = parser();
    let mut is_sent = false;
    let code = watched(command, |keys, piece| {
        parser.process(piece);
        if !is_sent && view(parser.screen()).is_some_and(|view| view.contains("One round so far")) {
            keys.write_all(b"\x03").unwrap();
            is_sent = true;
        }
    });
    assert_eq!(code, Some(130));
    let left = parser.screen().contents();
    assert!(left.contains("stopped by Ctrl-C") && !left.contains("^C"), "{left}");
    assert!(!left.contains("One round so far") && !left.contains("/90"), "{left}");
    Ok(())
}

fn plain() -> Outcome {
    let work = Work::new();
    let one = |out: &str, more: &[&str], name: &str| {
        let mut command = work.command(BLOBWISE);
        command.args(RUN.replace("out out", &format!("out {out}")).split(' '));
        command.args(["--rounds", "1", "--no-drop-caches"]).args(more).env("TERM", name);
        command
    };
    let mut said = vec![finish(&mut one("piped", &[], "xterm")).ended(0).stderr];
    for (out, more, name) in [("dumb", &[][..], "dumb"), ("no-live", &["--no-live"], "xterm")] {
        let mut text = Vec::new();
        assert_eq!(watched(one(out, more, name), |_, piece| text.extend_from_slice(piece)), Some(0));
        said.push(String::from_utf8(text).unwrap().replace("\r\n", "\n"));
    }
    for text in said {
        assert!(text.contains("\n[1/2] round 1/1: ") && text.contains("\n[2/2] round 1/1: "), "{text}");
        assert!(!text.contains(|sign: char| sign.is_control() && sign != '\n'), "{text:?}");
    }
    Ok(())
}

fn paged() -> Outcome {
    let work = Work::new();
    let result = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/run/result.json");
    std::fs::create_dir(work.path("out"))?;
    std::fs::copy(result, work.path("out/result.json"))?;
    let tables = |pager: &str| {
        let (terminal, other) = terminal();
        let mut command = work.blobwise("report out --tables");
        command.env("PAGER", pager).stdout(terminal).stderr(Stdio::null());
        let mut text = Vec::new();
        assert_eq!(read(command, other, |_, piece| text.extend_from_slice(piece)), Some(0));
        String::from_utf8(text).unwrap()
    };
    let paged = tables("sed s/^/page:/");
    assert!(paged.lines().count() > usize::from(LINES), "{paged}");
    assert!(paged.lines().all(|line| line.starts_with("page:")), "{paged}");
    // The shell finds no such program.
    let whole = tables("blobwise-no-such-pager");
    assert_eq!(paged.replace("page:", ""), whole);
    // What to do comes first.
    assert!(whole.trim_start().starts_with("Summary"), "{whole}");
    Ok(())
}
