//! A matrix prepared for display: lines for candidates, grouped by store, and columns for sizes.

use crate::corpus::CorpusId;
use crate::judge::{cells, interval};
use crate::result::{Cell, Interval, Matrix, MatrixCell, Reason, RunResult, Verdict};
use crate::units;

use super::then::is_later_part;

/// A matrix with its lines and columns in order.
pub struct MatrixView<'r> {
    pub matrix: &'r Matrix,
    /// Columns: sizes, or named corpora.
    pub columns: Vec<MatrixColumn>,
    /// Candidates except the reference, grouped by store.
    pub groups: Vec<MatrixGroup<'r>>,
    /// True if its rates include deferred work.
    pub settled: bool,
}

/// A column: one corpus.
pub struct MatrixColumn {
    /// Column head.
    pub title: String,
    /// Rate of the reference in ops per second, if measured.
    pub rate: Option<f64>,
}

/// Candidates of one store.
pub struct MatrixGroup<'r> {
    /// Store, plus the option in which its candidates differ if it is a single one; `None` for a lone candidate.
    pub title: Option<String>,
    /// Lines of the candidates.
    pub lines: Vec<MatrixRow<'r>>,
}

/// A candidate's line.
pub struct MatrixRow<'r> {
    /// Label within the group.
    pub label: String,
    /// Full label of the candidate.
    pub store: &'r str,
    /// Cells, one for each column.
    pub cells: Vec<Option<&'r MatrixCell>>,
}

/// Matrices of a result; for split phases, only that of the first part.
pub fn all(result: &RunResult) -> Vec<MatrixView<'_>> {
    let of_first = result.matrices.iter().filter(|matrix| !is_later_part(&matrix.phase));
    of_first.map(|matrix| shown(result, matrix)).collect()
}

fn shown<'r>(result: &'r RunResult, matrix: &'r Matrix) -> MatrixView<'r> {
    let mut sizes: Vec<u64> = matrix.cells.iter().map(|cell| cell.blob_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let is_reference = |cell: &&Cell| cell.store == matrix.reference && cell.phase == matrix.phase;
    let of_reference = || result.results.iter().filter(is_reference);
    let column = |bytes: u64| {
        let cell = of_reference().find(|cell| cell.corpus_id == CorpusId::with_median(bytes));
        let rate = cell.and_then(|cell| cell.settled_ops_per_s.or(cell.ops_per_s)).map(|rate| rate.median);
        MatrixColumn { title: title(result, bytes), rate }
    };
    MatrixView {
        matrix,
        groups: groups(matrix, &sizes),
        columns: sizes.iter().copied().map(column).collect(),
        settled: of_reference().any(cells::writes),
    }
}

/// Column head: the size, or the plan's name of the corpus.
fn title(result: &RunResult, bytes: u64) -> String {
    let named = !result.plan.corpora.is_empty();
    match result.corpus_of(CorpusId::with_median(bytes)).filter(|_| named) {
        Some(corpus) => corpus.name.clone(),
        None => units::bytes(bytes as f64),
    }
}

/// Splits a label into the store and its options.
fn parts(label: &str) -> (&str, &str) {
    label.find('[').map_or((label, ""), |at| label.split_at(at))
}

fn groups<'r>(matrix: &'r Matrix, sizes: &[u64]) -> Vec<MatrixGroup<'r>> {
    let groups = units::grouped(matrix.cells.iter().map(|cell| (parts(&cell.store).0, cell.store.as_str())));
    let line = |label: String, store: &'r str| {
        let at =
            |bytes: &u64| matrix.cells.iter().find(|cell| cell.store == store && cell.blob_bytes == *bytes);
        MatrixRow { label, store, cells: sizes.iter().map(at).collect() }
    };
    let group = |(name, members): (&str, Vec<&'r str>)| {
        let Some(option) = (members.len() > 1).then(|| one_option(&members)) else {
            return MatrixGroup { title: None, lines: vec![line(members[0].to_owned(), members[0])] };
        };
        let title = option.map_or(name.to_owned(), |option| format!("{name}, {option}"));
        let label = |store: &str| match (option, parts(store).1) {
            (Some(_), options) => value(options).unwrap_or_default().to_owned(),
            (None, "") => "as it is".to_owned(),
            (None, options) => options.trim_matches(['[', ']']).to_owned(),
        };
        MatrixGroup {
            title: Some(title),
            lines: members.into_iter().map(|store| line(label(store), store)).collect(),
        }
    };
    groups.into_iter().map(group).collect()
}

/// Option that all these candidates have in their labels, if it is their only one.
fn one_option<'r>(members: &[&'r str]) -> Option<&'r str> {
    let option = |store: &&'r str| {
        let inner = parts(store).1.strip_prefix('[')?.strip_suffix(']')?;
        let (option, _) = inner.split_once('=')?;
        (!inner.contains(',')).then_some(option)
    };
    let first = option(members.first()?)?;
    members.iter().all(|store| option(store) == Some(first)).then_some(first)
}

/// Value of the only option in a label.
fn value(options: &str) -> Option<&str> {
    options.strip_suffix(']')?.split_once('=').map(|(_, value)| value)
}

impl MatrixView<'_> {
    /// Explains the cells.
    pub fn about(&self) -> String {
        let Matrix { reference, compared, .. } = self.matrix;
        let rate = if self.settled { "settled rate" } else { "rate" };
        let cells = units::counted(*compared, "comparison");
        format!(
            "The {rate} of each candidate over that of `{reference}` in the same rounds. All intervals hold at once with 95 % ({cells})."
        )
    }
}

/// Short sign of a verdict.
pub fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "+",
        Verdict::Slower => "-",
        Verdict::Equal => "=",
        Verdict::CannotTellApart => "~",
        Verdict::NotRanked => "",
    }
}

/// Legend of these signs.
pub const SIGNS: &str = "`+` is surely faster, `-` surely slower, `=` equal within 3 %; `~` cannot be told.";

/// Short reason why a cell is not ranked.
pub fn brief(cell: &MatrixCell) -> String {
    /// Maximum length of such a reason, in letters.
    const MOST: usize = 22;
    let head = |why: &Reason| why.worded().head;
    let short = match &cell.reason {
        Some(Reason::OfReference { why }) => format!("reference: {}", head(why)),
        Some(Reason::Baseline) => "a baseline".to_owned(),
        Some(why) => head(why),
        None => String::new(),
    };
    if short.is_empty() || short.chars().count() > MOST { "not ranked".to_owned() } else { short }
}

/// Returns the ratio and verdict, or a short reason why there is none.
pub fn figure(cell: Option<&MatrixCell>) -> Result<(Interval, Verdict), String> {
    match cell {
        None => Err("-".to_owned()),
        Some(cell) => match cell.ratio.filter(|_| cell.verdict != Verdict::NotRanked) {
            Some(ratio) => Ok((ratio, cell.verdict)),
            None => Err(brief(cell)),
        },
    }
}

/// Formats a cell; `mark` shows the verdict.
pub fn text(cell: Option<&MatrixCell>, mark: fn(Verdict) -> &'static str) -> String {
    match figure(cell) {
        Ok((ratio, verdict)) => format!("{} {}", interval::text(&ratio), mark(verdict)),
        Err(why) => why,
    }
}
