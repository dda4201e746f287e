//! What is measured, as the result says it: the rows of a plan, with what their adapters say of them.

use std::collections::BTreeMap;

use crate::plan::{Class, Plan, Transaction, class_of};
use crate::result::{Promise, RowResult, Status, Traits};

/// The rows of a plan, those that cannot run here last. What their adapters say of them is asked for here and nowhere later: from now
/// on it is part of the result.
pub fn rows(plan: &Plan) -> Vec<RowResult> {
    let ready = plan.rows.iter().map(|row| {
        let promise = |class| {
            let durability = class_of(row, class, plan.durability);
            Promise { durability, damage: (row.adapter.damage)(&row.options, durability) }
        };
        let (asked, fill) = (promise(Class::Asked), promise(Class::Fill));
        RowResult {
            store: row.label.clone(),
            adapter: row.adapter.name.to_owned(),
            kind: Some(row.adapter.kind),
            options: row.options.shown(),
            traits: row.traits(),
            own_durability: row.own_class(),
            transaction: Some(row.transaction()).filter(|own| *own != Transaction::default()),
            facts: BTreeMap::new(),
            promise: Some(asked),
            fill_promise: Some(fill).filter(|fill| *fill != asked),
            made_cold: row.made_cold(),
            noticed_by: None,
            verified_from: None,
            status: Status::Measured,
            reason: None,
        }
    });
    let missing = plan.missing.iter().map(|missing| RowResult {
        store: missing.label.clone(),
        adapter: missing.adapter.clone(),
        kind: None,
        options: BTreeMap::new(),
        traits: Traits::default(),
        own_durability: None,
        transaction: None,
        facts: BTreeMap::new(),
        promise: None,
        fill_promise: None,
        made_cold: None,
        noticed_by: None,
        verified_from: None,
        status: Status::NotAvailable,
        reason: Some(missing.reason.clone()),
    });
    ready.chain(missing).collect()
}
