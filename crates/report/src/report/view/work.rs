//! Words for a kind of work: the head of its column, and its name within a sentence. Every report takes them from here.

use crate::judge::TIGHT_SHARE;
use crate::result::{Durability, RunResult, Situation};
use crate::units;

pub(in crate::report) struct WorkHead {
    /// What columns beside each other have in common, if anything.
    pub group: Option<&'static str>,
    /// The head in two lines, of which the second may be empty.
    pub lines: [String; 2],
}

impl WorkHead {
    /// The head in one line, below its group.
    pub(in crate::report) fn line(&self) -> String {
        self.lines.join(" ").trim_end().to_owned()
    }

    /// The head in one line, with its group.
    pub(in crate::report) fn label(&self) -> String {
        self.group.map_or(String::new(), |group| format!("{group}: ")) + &self.line()
    }
}

/// Head of the column of a kind of work.
pub(in crate::report) fn head(result: &RunResult, situation: &Situation) -> WorkHead {
    let read = |above: &str, below: &str| WorkHead {
        group: Some("read one"),
        lines: [above.to_owned(), below.to_owned()],
    };
    let share = units::percent(TIGHT_SHARE);
    let is_flushed = result.plan.durability.as_deref() != Some(Durability::None.name());
    match situation.short.as_str() {
        "warm" => read("in RAM", ""),
        "tight" => read("RAM for", &share),
        "hot" => read("hot set,", &format!("RAM {share}")),
        "cold" => read("cold", ""),
        "write" if is_flushed => WorkHead { group: None, lines: ["write,".to_owned(), "flushed".to_owned()] },
        own => WorkHead { group: None, lines: [own.to_owned(), String::new()] },
    }
}

/// Name of a kind of work within a sentence.
pub(in crate::report) fn named(situation: &Situation) -> String {
    match situation.short.as_str() {
        "warm" => "reads from RAM".to_owned(),
        "tight" => format!("reads with RAM for {}", units::percent(TIGHT_SHARE)),
        "hot" => "reads of a hot set".to_owned(),
        "cold" => "cold reads".to_owned(),
        "write" => "writes".to_owned(),
        own => format!("`{own}`"),
    }
}
