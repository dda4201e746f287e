//! Lines at the bottom of a terminal that are redrawn in place and leave nothing behind.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;

/// Columns and lines of a terminal that does not report its size.
const SIZE: (usize, usize) = (80, 24);
/// Minimum size, for terminals that report an impossible one.
const SIZE_MIN: (usize, usize) = (10, 2);

/// Progress bar for the steps done before step `index` (from 1) of `of`, with a text beside it.
pub fn bar(index: usize, of: usize, text: &str) -> String {
    const WIDTH: usize = 24;
    let done = index.saturating_sub(1);
    let full = (WIDTH * done / of.max(1)).min(WIDTH);
    format!("[{:-<WIDTH$}] {done}/{of}  {text}", "#".repeat(full))
}

/// An area of redrawn lines. The cursor rests at the start of the line below them, so that what the terminal echoes, such as the
/// `^C` of an interrupt, appears there and disappears with the next redraw.
pub struct Screen {
    terminal: File,
    drawn: RefCell<Vec<String>>,
}

impl Screen {
    /// Returns the screen of standard error; `None` if it is not a terminal, or one that cannot move the cursor up.
    pub fn of_stderr() -> Option<Screen> {
        let is_plain = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        if is_plain || !io::stderr().is_terminal() {
            return None;
        }
        let terminal = io::stderr().as_fd().try_clone_to_owned().ok()?;
        Some(Screen { terminal: File::from(terminal), drawn: RefCell::default() })
    }

    /// Columns and lines available for drawing, one less than the terminal has of each, because of the cursor.
    pub fn size(&self) -> (usize, usize) {
        let told = rustix::termios::tcgetwinsize(&self.terminal).ok();
        let told = told.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let (columns, lines) = told.filter(|(columns, lines)| *columns > 0 && *lines > 0).unwrap_or(SIZE);
        (columns.max(SIZE_MIN.0) - 1, lines.max(SIZE_MIN.1) - 1)
    }

    /// Replaces the lines drawn before. Lines that are too long or too many are cut off.
    pub fn draw(&self, lines: Vec<String>) {
        let (columns, rows) = self.size();
        let mut text = self.back();
        // Turns off automatic wrapping, because wide characters take more columns than counted here.
        text += "\x1b[?7l";
        for line in lines.iter().take(rows) {
            let cut: String = super::for_terminal(line).chars().take(columns).collect();
            text += &cut;
            text += "\x1b[K\r\n";
        }
        text += "\x1b[J\x1b[?7h";
        *self.drawn.borrow_mut() = lines.into_iter().take(rows).collect();
        self.write(&text);
    }

    /// Runs `print` with the lines out of the way, so that output appears above them.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        let lines = self.clear();
        let printed = print();
        self.draw(lines);
        printed
    }

    /// Removes the lines and returns them.
    pub fn clear(&self) -> Vec<String> {
        if !self.drawn.borrow().is_empty() {
            self.write(&format!("{}\x1b[J", self.back()));
        }
        self.drawn.take()
    }

    /// Control sequence that moves the cursor to the first line.
    fn back(&self) -> String {
        let mut text = "\r".to_owned();
        let lines = self.drawn.borrow().len();
        if lines > 0 {
            write!(text, "\x1b[{lines}A").ok();
        }
        text
    }

    /// Writes in one call, so that other writers cannot interleave. Errors are ignored: if the terminal is gone, there is nowhere
    /// to report it.
    fn write(&self, text: &str) {
        (&self.terminal).write_all(text.as_bytes()).ok();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Keeps a panic message, which is printed below the lines.
        if !std::thread::panicking() {
            self.clear();
        }
    }
}
