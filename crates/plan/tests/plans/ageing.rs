//! Plans that age.

use blobwise_engine::engine::work::ResolvePlan;
use blobwise_plan::plan::*;

#[test]
fn blobs_are_replaced_by_one_way_in_one_order() {
    let by = |text: &str| text.parse::<Replacement>();
    assert_eq!(by("overwrite").unwrap(), Replacement::default());
    let turnover = Replacement { turnover: true, order: Order::Uniform };
    assert_eq!(by("turnover").unwrap(), turnover);
    let skewed = Replacement { order: Order::Zipfian(0.99), ..turnover };
    assert_eq!(by("turnover, zipfian:0.99").unwrap(), skewed);
    for wrong in ["", "rewrite", "overwrite,once", "turnover,zipfian", "zipfian:0.99", "turnover,overwrite"] {
        let error = by(wrong).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--age-by: `{wrong}` is not")), "{error}");
    }
    let design = |toml: &str| PlanText::parse(toml).unwrap().resolve(false).map(|plan| plan.design);
    let aged = design("age = '0,1'\nage_by = 'turnover'").unwrap();
    assert_eq!(aged.replacement, turnover);
    // Also of the standard phase.
    assert_eq!(design("phases = ['fill', 'age']\nage_by = 'turnover'").unwrap().replacement, turnover);
    let error = format!("{:#}", design("age_by = 'turnover'").unwrap_err());
    assert!(error.contains("give --age too"), "{error}");
}

#[test]
fn ageing_overwrites_up_to_each_step_and_reads_there() {
    let design = |toml: &str| PlanText::parse(toml).unwrap().resolve(false).map(|plan| plan.design);
    let aged = design("age = '0,0.5,2'\nphases = ['fill', 'read-cold', 'read-again']").unwrap();
    let ids: Vec<&str> = aged.phases.iter().map(|phase| phase.id.as_str()).collect();
    let at_50 = ["age.50", "read-cold.50", "read-again.50"];
    assert_eq!(
        (&ids[..3], &ids[3..6], ids.len()),
        (&["fill", "read-cold.00", "read-again.00"][..], &at_50[..], 9)
    );
    let amounts = aged.phases.iter().filter_map(|phase| Some(phase.custom_action()?.amount));
    assert_eq!(amounts.collect::<Vec<f64>>(), [0.5, 2.0]);
    // As stored with a run, with the defaults written out.
    assert_eq!(aged.text.resolve(false).unwrap().design.phases, aged.phases);
    let renewed = "age = '0,2'\nphases = ['fill', 'read-cold', 'rejuvenate', 'read-again']";
    let renewed = design(renewed).unwrap();
    let ids: Vec<&str> = renewed.phases.iter().map(|phase| phase.id.as_str()).collect();
    let last = ["rejuvenate", "read-cold-after-rejuvenate", "read-again-after-rejuvenate"];
    assert_eq!((&ids[3..6], &ids[6..]), (&["age.200", "read-cold.200", "read-again.200"][..], &last[..]));
    assert_eq!(renewed.phases[8].load().unwrap().repeats.as_deref(), Some(last[1]));
    assert_eq!(renewed.text.resolve(false).unwrap().design.phases, renewed.phases);
    let own = "[[phase]]\nid = 'own'\nops = {get = 1.0}\nshare = 1.0\nstores = ['sqlite']";
    let some = design(&format!("stores = ['files/flat', 'sqlite']\nage = '0,0.5'\n{own}")).unwrap();
    let does = |store: &str| some.is_for("own.50", store, &std::collections::BTreeMap::new());
    assert!(does("sqlite") && !does("files/flat"));
    for (wrong, words) in [
        ("age = '0..8'\ngrow = '1k..10k'", "cannot be used with --grow"),
        ("age = '0..8'\nsweep = '1kB..1MB'", "cannot be used with --sweep"),
        ("age = '0..8'\nlimit = 'p99=5ms'", "cannot be used with --limit"),
        ("age = '0..8'\nrate = 500.0", "cannot be used with --rate"),
        ("age = '0..8'\nphases = ['fill', 'overwrite']", "cannot repeat the phase `overwrite`"),
        ("age = '0..8'\nphases = ['fill', 'age']", "cannot repeat the phase `age-1`"),
    ] {
        let error = format!("{:#}", design(wrong).unwrap_err());
        assert!(error.contains(words), "{wrong}: {error}");
    }
}
