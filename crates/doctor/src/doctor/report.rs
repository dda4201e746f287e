//! The report: one line per check, with everything that is needed to dispute it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::against::{AnswerChange, ExaminationChanges};
use super::checks;
use super::facts::{SubjectFacts, SubjectKind};
use super::finding::{Answer, Check, CheckQuestion, FigurePeriod, LeastAges};
use super::wrapped::{wrapped, wrapped_behind};
use crate::units;

/// The answers to all questions.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    /// Version of the file format.
    pub format: u32,
    /// Version of blobwise.
    pub blobwise: String,
    /// Time of the second look.
    pub taken_at: String,
    /// Subjects examined: the machine first, then each server.
    pub subjects: Vec<SubjectReport>,
    /// Comparison with an earlier examination, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<ExaminationChanges>,
}

/// Version of the format of [`Report`].
pub const FORMAT: u32 = 1;

/// The answers for one machine or server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubjectReport {
    /// Kind of the subject.
    pub kind: SubjectKind,
    /// Name of the subject: a URL without its password.
    pub subject: String,
    /// Version that it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Reason if it could not be queried at all; it has no lines then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    /// Seconds between the two looks.
    pub seconds: f64,
    /// One line per check.
    pub lines: Vec<CheckReport>,
}

/// The answer of one check.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckReport {
    /// Name of the check in `docs/doctor.md`.
    pub check: String,
    /// Question that the check helps to answer.
    pub question: CheckQuestion,
    /// The answer.
    pub answer: Answer,
    /// The figure in words, or the reason why the check cannot tell.
    pub figure: String,
    /// The figure as a number in the check's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Seconds over which the figure was counted; absent if it describes one moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// Affected objects, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<String>,
    /// Thresholds of the answers.
    pub threshold: String,
    /// Reason for the threshold.
    pub reason: String,
    /// Source of the figure.
    pub source: String,
    /// Command that shows the figure.
    pub shown_by: String,
    /// Command that measures the alternative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub try_this: Option<String>,
}

impl DoctorReport {
    /// Runs the checks on facts.
    pub fn from_facts(facts: &[SubjectFacts], taken_at: &str, ages: &LeastAges) -> DoctorReport {
        let examined = |facts: &SubjectFacts| SubjectReport {
            kind: facts.kind,
            subject: facts.subject.clone(),
            version: facts.version.clone(),
            unreachable: facts.unreachable.clone(),
            seconds: facts.seconds(),
            lines: match facts.unreachable {
                Some(_) => Vec::new(),
                None => checks::for_kind(facts.kind)
                    .map(|check| CheckReport::evaluate(check, facts, ages))
                    .collect(),
            },
        };
        DoctorReport {
            format: FORMAT,
            blobwise: env!("CARGO_PKG_VERSION").to_owned(),
            taken_at: taken_at.to_owned(),
            subjects: facts.iter().map(examined).collect(),
            against: None,
        }
    }

    /// Adds the comparison with an earlier report. Both must be judged by these ages.
    pub fn against(self, old: &DoctorReport, ages: &LeastAges) -> DoctorReport {
        let judged_by = format!("Both sides are judged by {}.", ages.as_flags());
        let mut against =
            ExaminationChanges { taken_at: old.taken_at.clone(), judged_by, ..ExaminationChanges::default() };
        for subject in &self.subjects {
            match old.counterpart(subject) {
                None => against.unmatched.push(format!("{} was not looked at then", subject.subject)),
                Some(before) => subject.compare(before, &mut against),
            }
        }
        let gone = old.subjects.iter().filter(|before| self.counterpart(before).is_none());
        against.unmatched.extend(gone.map(|before| format!("{} was looked at then only", before.subject)));
        DoctorReport { against: Some(against), ..self }
    }

    fn counterpart(&self, subject: &SubjectReport) -> Option<&SubjectReport> {
        self.subjects.iter().find(|other| other.kind == subject.kind && other.subject == subject.subject)
    }

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = &CheckReport> {
        self.subjects.iter().flat_map(|subject| &subject.lines)
    }

    /// Number of lines with this answer.
    pub fn count(&self, answer: Answer) -> usize {
        self.lines().filter(|line| line.answer == answer).count()
    }

    /// True if an answer is bad or a subject could not be queried, so that callers do not take the report for an all-clear.
    pub fn has_failed(&self) -> bool {
        self.count(Answer::Bad) > 0 || self.subjects.iter().any(|subject| subject.unreachable.is_some())
    }

    /// Formats the report for a terminal, in at most 80 columns. Lines that are `ok` show only their figure, unless `all` is set.
    pub fn terminal(&self, all: bool) -> String {
        let mut text = String::new();
        for subject in &self.subjects {
            text += &subject.heading();
            for question in CheckQuestion::ALL {
                let lines: Vec<&CheckReport> =
                    subject.lines.iter().filter(|line| line.question == question).collect();
                if !lines.is_empty() {
                    text += &format!("\n{}\n", question.name());
                }
                text.extend(lines.into_iter().map(|line| line.terminal(all)));
            }
            text += "\n";
        }
        text += &wrapped("", &self.summary());
        text.extend(self.against.as_ref().map(ExaminationChanges::terminal));
        text
    }

    /// Counts the answers by kind.
    pub fn summary(&self) -> String {
        let count = |answer| format!("{} {}", self.count(answer), Answer::name(answer));
        let counts = [Answer::Bad, Answer::Look, Answer::CannotTell, Answer::Ok].map(count).join(", ");
        let unreachable = self.subjects.iter().filter(|subject| subject.unreachable.is_some()).count();
        let unreachable = match unreachable {
            0 => String::new(),
            number => format!(" {} could not be asked.", units::counted(number, "server")),
        };
        format!(
            "{counts}.{unreachable} Check again after each change: a figure is of the time between two looks."
        )
    }
}

impl SubjectReport {
    /// Name and version of the subject.
    pub fn title(&self) -> String {
        let version = self.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
        match self.kind {
            SubjectKind::Machine => format!("This machine{version}"),
            _ => format!("{}{version}", self.subject),
        }
    }

    fn compare(&self, before: &SubjectReport, against: &mut ExaminationChanges) {
        let name = &self.subject;
        match (&before.unreachable, &self.unreachable) {
            (Some(_), Some(_)) => against.unmatched.push(format!("{name} could not be asked then either")),
            (Some(_), None) => against.unmatched.push(format!("{name} could not be asked then")),
            (None, Some(_)) => against.unmatched.push(format!("{name} could be asked then")),
            (None, None) => {}
        }
        for line in &self.lines {
            let Some(then) = before.lines.iter().find(|then| then.check == line.check) else { continue };
            if then.answer == line.answer {
                against.same += 1;
                continue;
            }
            against.changes.push(AnswerChange {
                subject: name.clone(),
                check: line.check.clone(),
                was: then.answer,
                is: line.answer,
                then: then.figure.clone(),
                now: line.figure.clone(),
            });
        }
    }

    fn heading(&self) -> String {
        let title = self.title();
        match &self.unreachable {
            Some(why) => wrapped("", &title) + &wrapped("  ", &format!("cannot be asked: {why}")),
            None => {
                wrapped("", &format!("{title}, two looks {} apart", units::nanoseconds(self.seconds * 1e9)))
            }
        }
    }
}

impl CheckReport {
    fn evaluate(check: &Check, facts: &SubjectFacts, ages: &LeastAges) -> CheckReport {
        let found = (check.judge)(facts, ages);
        let mut line = CheckReport {
            check: check.id.to_owned(),
            question: check.question,
            answer: Answer::CannotTell,
            figure: String::new(),
            value: None,
            age_seconds: None,
            named: Vec::new(),
            threshold: check.threshold.to_owned(),
            reason: check.reason.to_owned(),
            source: check.source.to_owned(),
            shown_by: check.shown_by.to_owned(),
            try_this: None,
        };
        match found {
            Err(why) => line.figure = why,
            Ok(found) => {
                line.answer = found.answer;
                line.figure = found.figure;
                // A figure that is not finite is absent from the report.
                line.value = found.value.filter(|value| value.is_finite());
                line.named = found.named;
                line.try_this = found.try_this;
                line.age_seconds = match found.over {
                    FigurePeriod::Now => None,
                    FigurePeriod::Looks => Some(facts.seconds()),
                    FigurePeriod::Seconds(seconds) => Some(seconds),
                };
            }
        }
        line
    }

    /// Describes the period of the figure.
    pub fn age(&self) -> String {
        match self.age_seconds {
            None => "at one moment".to_owned(),
            Some(seconds) => format!("counted for {}", units::age(seconds)),
        }
    }

    fn terminal(&self, all: bool) -> String {
        const INDENT: &str = "              ";
        let first = format!("{:<12}{}: {}", self.answer.name(), self.check, self.figure);
        let mut text = wrapped_behind("  ", INDENT, &first);
        if self.answer == Answer::Ok && !all {
            return text;
        }
        // The first one is part of the figure.
        text.extend(self.named.iter().skip(1).take(4).map(|name| wrapped(INDENT, &format!("also {name}"))));
        if self.answer != Answer::CannotTell || all {
            text += &wrapped(INDENT, &format!("({})", self.age()));
            text += &wrapped(INDENT, &format!("rule: {}", self.threshold));
            text += &wrapped(INDENT, &format!("why:  {}", self.reason));
        }
        text += &wrapped(INDENT, &format!("from: {}", self.source));
        text += &wrapped(INDENT, &format!("see:  {}", self.shown_by));
        text.extend(self.try_this.as_ref().map(|command| wrapped(INDENT, &format!("try:  {command}"))));
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report(at: &str, subjects: &[Value]) -> DoctorReport {
        let report = json!({"format": 1, "blobwise": "0.1.0", "taken_at": at, "subjects": subjects});
        serde_json::from_value(report).unwrap()
    }

    fn server(name: &str, answers: &[(&str, &str)]) -> Value {
        let line = |(check, answer): &(&str, &str)| {
            json!({"check": check, "question": "disk", "answer": answer, "figure": format!("{check} is {answer}"),
                   "threshold": "", "reason": "", "source": "", "shown_by": ""})
        };
        let lines: Vec<Value> = answers.iter().map(line).collect();
        json!({"kind": "redis", "subject": name, "seconds": 5.0, "lines": lines})
    }

    #[test]
    fn what_answers_otherwise_and_what_has_no_counterpart_is_told() {
        let mut silent = server("c", &[]);
        silent["unreachable"] = "nobody listens".into();
        let old = report(
            "then",
            &[
                server("a", &[("x", "ok"), ("y", "bad")]),
                server("b", &[("x", "ok")]),
                server("c", &[("x", "ok")]),
            ],
        );
        let new = report("now", &[server("a", &[("x", "look"), ("y", "bad")]), silent, server("d", &[])]);
        let text = new.against(&old, &LeastAges::default()).against.unwrap().terminal();
        let told: Vec<&str> = text.lines().map(str::trim).collect();
        let expected = [
            "",
            "Against then:",
            "Both sides are judged by --least-age 24h for caches, 336h for indexes.",
            "c could be asked then",
            "d was not looked at then",
            "b was looked at then only",
            "x: ok, now look",
            "of:   a",
            "then: x is ok",
            "now:  x is look",
            "1 answer is the same.",
        ];
        assert_eq!(told, expected);
    }
}
