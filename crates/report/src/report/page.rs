//! A document in Markdown.

/// A Markdown document, paragraph by paragraph.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    /// True once the appendix has begun: headings are a level lower.
    is_appendix: bool,
}

impl Page {
    pub(super) fn text(self) -> String {
        self.text
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        let lower = if self.is_appendix && text.starts_with("##") { "#" } else { "" };
        self.block(&format!("{lower}{}", escaped(text)));
    }

    /// Puts all that follows into an appendix.
    pub(super) fn appendix(&mut self) {
        self.paragraph("## Appendix");
        self.is_appendix = true;
    }

    /// Appends a block that is already Markdown.
    pub(super) fn block(&mut self, markdown: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(markdown);
        self.text.push('\n');
    }

    pub(super) fn list(&mut self, points: &[String]) {
        let points: Vec<String> = points.iter().map(|point| format!("- {}", escaped(point))).collect();
        if !points.is_empty() {
            self.block(&points.join("\n"));
        }
    }

    pub(super) fn table(&mut self, head: &[&str], lines: impl Iterator<Item = Vec<String>>) {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells: Vec<String> =
                cells.map(|cell| escaped(cell).replace('|', "\\|").replace('\n', " ")).collect();
            format!("| {} |", cells.join(" | "))
        };
        let mut text = vec![line(&mut head.iter().copied()), line(&mut head.iter().map(|_| "---"))];
        text.extend(lines.map(|cells| line(&mut cells.iter().map(String::as_str))));
        // A table without rows is omitted.
        if text.len() > 2 {
            self.block(&text.join("\n"));
        }
    }
}

/// Escapes tags, links and images in text. Code spans are left alone, since nothing in them is interpreted.
fn escaped(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let fence = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let (before, code) = (&rest[..at], &rest[at + fence..]);
        let end = end_of_code(code, fence);
        shown += &escaped_prose(before);
        shown += &rest[at..at + fence + end];
        rest = &code[end..];
    }
    shown + &escaped_prose(rest)
}

/// Returns the end of a code span, behind the closing backticks; `fence` is the number of opening backticks. 0 if the span is not
/// closed.
fn end_of_code(code: &str, fence: usize) -> usize {
    let mut at = 0;
    while let Some(found) = code[at..].find('`') {
        let run = code[at + found..].len() - code[at + found..].trim_start_matches('`').len();
        at += found + run;
        if run == fence {
            return at;
        }
    }
    0
}

fn escaped_prose(text: &str) -> String {
    text.replace('<', "\\<").replace("![", "!\\[").replace("](", "]\\(")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_is_no_tag_and_no_picture() {
        let mut page = Page::default();
        page.paragraph("`<b>` <b> ![x](http://y) ``a ` <b>`` [x](javascript:y) ` <i>");
        page.table(&["a"], [vec!["<b>|`<b>|`\n# x".to_owned()]].into_iter());
        assert_eq!(
            page.text,
            "`<b>` \\<b> !\\[x]\\(http://y) ``a ` <b>`` [x]\\(javascript:y) ` \\<i>\n\n\
             | a |\n| --- |\n| \\<b>\\|`<b>\\|` # x |\n"
        );
    }
}
