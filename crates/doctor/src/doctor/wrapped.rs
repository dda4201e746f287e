//! Wraps text to the width of a terminal.

const COLUMNS: usize = 80;

pub(super) fn wrapped(indent: &str, text: &str) -> String {
    wrapped_behind(indent, indent, text)
}

/// Wraps text with a different indent for the first line. A word that is too long gets a line of its own.
pub(super) fn wrapped_behind(first: &str, indent: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines += line.trim_end();
            lines += "\n";
            line = indent.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line += " ";
        }
        line += word;
        is_empty = false;
    }
    lines + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_wider_than_a_terminal() {
        let text = wrapped_behind("  ", "      ", &"word ".repeat(60));
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!(text.split_whitespace().count(), 60);
        let long = "x".repeat(100);
        assert_eq!(wrapped("", &format!("a {long} b")), format!("a\n{long}\nb\n"));
    }
}
