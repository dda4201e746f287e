//! Loads of pages in a browser: reads of which each is a whole page, after what was published for them.

use super::super::visitor::{Done, Visitor};
use super::Work;
use crate::plan::{Length, Load, OpKind, Part, Phase, StandardPhase};

/// Loads of a page in each round: of the quickest pages they still take the time that a ranked cell must have.
const LOADS: u64 = 20;

const NAME: &str = "pages";
const STANDARD: &[StandardPhase] = &[
    StandardPhase {
        id: "publish",
        about: "puts every blob once, as what later phases need: it is not reported",
        phases: |_| {
            let puts = Phase::of_ops("publish", Load::of(OpKind::Put, Length::Share(1.0)));
            vec![Phase { kind: NAME, part: Part::Prepares, ..puts }]
        },
    },
    StandardPhase {
        id: "load",
        about: "loads pages in a real browser, each in a fresh context; from the start of the navigation until everything is shown",
        phases: |_| {
            vec![Phase { kind: NAME, ..Phase::of_ops("load", Load::of(OpKind::Get, Length::Ops(LOADS))) }]
        },
    },
];

/// See the file.
pub(super) struct Pages;

impl Work for Pages {
    fn name(&self) -> &'static str {
        NAME
    }

    fn standard(&self) -> &'static [StandardPhase] {
        STANDARD
    }

    fn run(&self, visitor: &mut Visitor<'_>, phase: &Phase, _repeat: Option<&Phase>) -> Done {
        let Some(load) = phase.load() else { return Ok(None) };
        visitor.ops(phase, load)
    }
}
