//! Lines at the lower end of a terminal that are drawn over as things go on, and that leave nothing behind.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;

use crate::shown;

/// Columns and lines of a terminal that does not say how large it is.
const SIZE: (usize, usize) = (80, 24);
/// The least that is drawn on, where it says something that cannot be.
const SIZE_MIN: (usize, usize) = (10, 2);

/// How much of `of` steps is done before step `index` (from 1), as a bar, and what is said beside it.
pub fn bar(index: usize, of: usize, text: &str) -> String {
    const WIDTH: usize = 24;
    let done = index.saturating_sub(1);
    let full = (WIDTH * done / of.max(1)).min(WIDTH);
    format!("[{:-<WIDTH$}] {done}/{of}  {text}", "#".repeat(full))
}

/// Below the lines the cursor stands at the begin of a line of its own: what a terminal echoes, such as the `^C` of an interrupt, is
/// written there and goes with the next picture.
pub struct Screen {
    terminal: File,
    /// What is on it.
    drawn: RefCell<Vec<String>>,
}

impl Screen {
    /// That of standard error; none where that is no terminal, or one that cannot go back a line.
    pub fn of_stderr() -> Option<Screen> {
        let is_plain = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        if is_plain || !io::stderr().is_terminal() {
            return None;
        }
        io::stderr().as_fd().try_clone_to_owned().ok().map(|terminal| Screen::on(File::from(terminal)))
    }

    /// That of an open terminal.
    pub fn on(terminal: File) -> Screen {
        Screen { terminal, drawn: RefCell::default() }
    }

    /// Columns and lines that can be drawn on: of either one less than there are, for the cursor.
    pub fn size(&self) -> (usize, usize) {
        let told = rustix::termios::tcgetwinsize(&self.terminal).ok();
        let told = told.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let (columns, lines) = told.filter(|(columns, lines)| *columns > 0 && *lines > 0).unwrap_or(SIZE);
        (columns.max(SIZE_MIN.0) - 1, lines.max(SIZE_MIN.1) - 1)
    }

    /// Draws these lines in place of those that are there. What is longer or more than the terminal has room for is cut off.
    pub fn draw(&self, lines: Vec<String>) {
        let (columns, rows) = self.size();
        let mut text = self.back();
        // Wide letters take more columns than they are: no line goes on in the next one.
        text += "\x1b[?7l";
        for line in lines.iter().take(rows) {
            let cut: String = shown::on_terminal(line).chars().take(columns).collect();
            text += &cut;
            text += "\x1b[K\r\n";
        }
        text += "\x1b[J\x1b[?7h";
        *self.drawn.borrow_mut() = lines.into_iter().take(rows).collect();
        self.write(&text);
    }

    /// Does what prints, above the lines.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        let lines = self.clear();
        let printed = print();
        self.draw(lines);
        printed
    }

    /// Takes the lines away, and says which there were.
    pub fn clear(&self) -> Vec<String> {
        if !self.drawn.borrow().is_empty() {
            self.write(&format!("{}\x1b[J", self.back()));
        }
        self.drawn.take()
    }

    /// Back to where the first line is.
    fn back(&self) -> String {
        let mut text = "\r".to_owned();
        let lines = self.drawn.borrow().len();
        if lines > 0 {
            write!(text, "\x1b[{lines}A").ok();
        }
        text
    }

    /// In one piece, so that no other writer is in the middle of it. Nobody is left to be told that a terminal is gone.
    fn write(&self, text: &str) {
        (&self.terminal).write_all(text.as_bytes()).ok();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // What a panic said stands below the lines.
        if !std::thread::panicking() {
            self.clear();
        }
    }
}
