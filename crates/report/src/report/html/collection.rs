//! The page of a collection of repeated experiments: all claims, then each experiment's own tables.

use maud::{Markup, html};

use super::table::{ABSENT, Table, TableCell};
use super::{began_on, document, prose, then};
use crate::report::view::then as told;
use crate::report::view::words;
use crate::result::{ClaimVerdict, RunResult};
use crate::units;

/// A plan of a collection.
#[derive(Debug)]
pub struct CollectionMember {
    /// Name of the plan, and of its directory beside the page.
    pub name: String,
    /// Purpose of the plan.
    pub about: String,
    /// Result, or the reason why there is none.
    pub result: Result<RunResult, String>,
}

/// Renders the page.
pub fn render(about: &str, members: &[CollectionMember]) -> String {
    let body = html! {
        header {
            h1 { "blobwise: then and now" }
            p { (prose(about)) }
            @if let Some((_, result)) = measured(members).next() { (began_on(result)) }
            nav aria-label="Sections" {
                a href="#claims" { "All claims" }
                @for member in members { a href={ "#" (member.name) } { (member.name) } }
            }
        }
        main {
            (claims(members))
            @for member in members { (section(member)) }
        }
    };
    document("blobwise: then and now", env!("CARGO_PKG_VERSION"), &body).into_string()
}

fn measured(members: &[CollectionMember]) -> impl Iterator<Item = (&CollectionMember, &RunResult)> {
    members.iter().filter_map(|member| Some((member, member.result.as_ref().ok()?)))
}

/// Table of all claims, with the number of claims for each verdict.
fn claims(members: &[CollectionMember]) -> Markup {
    let heads = ["plan", "claim", "what was said", "verdict", "then", "today", "counts as true if"];
    let mut table = Table::new("All claims", heads);
    for (member, result) in measured(members) {
        for claim in told::judged_claims(result) {
            let words = |words: &str| TableCell::new(html! { (prose(words)) }, "words");
            let figure =
                |figure: Option<String>| TableCell::from(figure.unwrap_or_else(|| ABSENT.to_owned()));
            table.push(vec![
                TableCell::new(html! { a href={ "#" (member.name) } { (member.name) } }, ""),
                TableCell::from(&claim.claim.id),
                words(&claim.said()),
                words(&claim.verdict()),
                figure(claim.then()),
                figure(claim.now()),
                figure(claim.true_if()),
            ]);
        }
    }
    let own: Vec<_> = measured(members).flat_map(|(_, result)| result.own_claims()).collect();
    let count = |verdict: ClaimVerdict| own.iter().filter(|claim| claim.verdict == verdict).count();
    html! {
        section id="claims" {
            h2 { "All claims" }
            p {
                (units::counted(own.len(), "claim")) ": " (count(ClaimVerdict::Confirmed)) " confirmed, "
                (count(ClaimVerdict::Refuted)) " refuted, " (count(ClaimVerdict::CannotTellApart))
                " neither, " (count(ClaimVerdict::NotTestable)) " not testable"
                @if count(ClaimVerdict::NotReached) > 0 { ", " (count(ClaimVerdict::NotReached)) " not reached yet" }
                ". Why stands with the claims of each plan."
            }
            @if measured(members).any(|(_, result)| result.plan.scale.is_some_and(|scale| scale < 1.0)) {
                p.warning { "Not every plan was run at its published size. Do not quote verdicts of smaller runs." }
            }
            (table)
        }
    }
}

fn section(member: &CollectionMember) -> Markup {
    html! {
        section id=(member.name) {
            h2 { (member.name) }
            p { (prose(&member.about)) }
            @match &member.result {
                Err(why) => p.warning { "It was not run: " (prose(why)) },
                Ok(result) => {
                    p.facts {
                        (result.program.started) " · " (words::rounds(result))
                        @if let Some(scale) = result.plan.scale { " · at " (scale) " of its size" }
                        @if !result.complete { " · not complete" }
                        " · " a href={ (member.name) "/report.html" } { "its whole report" }
                    }
                    (then::contents(result))
                }
            }
        }
    }
}
