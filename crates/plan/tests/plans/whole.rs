//! Tests of valid plans of every kind, and of those that are rejected.

use anyhow::{Result, anyhow};

use blobwise_engine::engine::work::ResolvePlan;
use blobwise_plan::plan::DEFAULT_BUDGET;
use blobwise_plan::plan::text::corpora::corpora;
use blobwise_plan::plan::*;
use blobwise_plan::rules::SCALED_MEMORY_MIN;
use blobwise_stores::corpus::CorpusId;
use blobwise_stores::store::Durability;

fn resolve(toml: &str) -> Result<Plan> {
    PlanText::parse(toml)?.resolve(true)
}

fn error(toml: &str) -> String {
    format!("{:#}", resolve(toml).err().unwrap_or_else(|| anyhow!("no error")))
}

#[test]
fn baselines_are_added_once_to_what_is_named_or_meant() {
    let names = |text: &str| {
        let mut text = PlanText::parse(text).unwrap();
        text.add_baselines();
        text.stores.unwrap()
    };
    let named = names("stores = ['fopen[depth=2]', 'files/flat', 'null']");
    assert_eq!(named, ["fopen[depth=2]", "files/flat", "null", "memory", "raw"]);
    let default = names("");
    assert_eq!(default[..DEFAULT_STORES.len()], *DEFAULT_STORES);
    assert_eq!(default[DEFAULT_STORES.len()..], ["memory", "fopen", "raw"]);
}

#[test]
fn keys_that_are_given_replace_those_of_a_plan_and_no_others() {
    let (_, shipped) = SHIPPED.iter().find(|(name, _)| *name == "horak-2010").unwrap();
    let plan = PlanText::parse(shipped).unwrap();
    assert_eq!(plan.clone().with_keys_of(&PlanText::default()).unwrap(), plan);
    let given = PlanText { seed: Some(u64::MAX), stores: Some(Vec::new()), ..PlanText::default() };
    let expected = PlanText { seed: given.seed, stores: given.stores.clone(), ..plan.clone() };
    assert_eq!(plan.with_keys_of(&given).unwrap(), expected);
    let rate = PlanText { rate: Some(f64::NAN), ..PlanText::default() };
    assert!(PlanText::default().with_keys_of(&rate).unwrap().rate.is_some_and(f64::is_nan));
}

#[test]
fn an_empty_plan_is_the_default_run() {
    let plan = PlanText::default().resolve(false).unwrap();
    assert_eq!(plan.durability, Durability::OnSync);
    assert_eq!(plan.budget, Some(DEFAULT_BUDGET));
    assert_eq!(plan.reference, "files/hashed");
    assert_eq!(plan.candidates.len() + plan.missing.len(), DEFAULT_STORES.len());
    let again = PlanText::parse(&plan.text.to_toml().unwrap()).unwrap();
    assert_eq!(again, plan.text);
}

#[test]
fn rounds_switch_the_default_budget_off() {
    assert_eq!(resolve("rounds = 5").unwrap().budget, None);
    assert!(resolve("rounds = 5\nbudget = '1m'").unwrap().budget.is_some());
}

#[test]
fn a_quick_run_has_half_a_minute_unless_rounds_or_a_budget_are_given() {
    let budget = |more: &str| {
        let mut text: PlanText = toml::from_str(more).unwrap();
        text.make_quick();
        text.budget
    };
    assert_eq!(budget("").as_deref(), Some("30s"));
    assert_eq!(budget("budget = '1m'").as_deref(), Some("1m"));
    assert_eq!(budget("rounds = 5"), None);
}

#[test]
fn a_preview_has_two_rounds_unless_they_are_long() {
    let rounds = |more: &str| resolve(&format!("scale = 0.01\n{more}")).unwrap().rounds;
    assert_eq!(rounds(""), Some(2));
    assert_eq!(rounds("sweep = '100B..1GB'"), Some(1));
    assert_eq!(rounds("sweep = '100B..1GB'\nrounds = 3"), Some(3));
}

#[test]
fn memory_in_bytes_is_scaled_with_the_data() {
    let memory = |text: &str| resolve(text).unwrap().memory.map(|memory| memory.bytes(1_000));
    assert_eq!(memory("memory = '2GB'"), Some(2_000_000_000));
    assert_eq!(memory("memory = '2GB'\nscale = 0.5"), Some(1_000_000_000));
    assert_eq!(memory("memory = '2GB'\nscale = 0.001"), Some(SCALED_MEMORY_MIN));
    assert_eq!(memory("memory = '1MB'\nscale = 0.001"), Some(1_000_000));
    assert_eq!(memory("memory = '25%'\nscale = 0.001"), Some(250));
    assert_eq!(memory("memory = 'none'"), None);
}

#[test]
fn nonsense_is_refused_with_its_name_and_limit() {
    assert!(error("workers = 0").contains("--workers: `0`"));
    assert!(error("rate = -1.0").contains("--rate"));
    assert!(error("rounds = 4000000000").contains("between 1 and 10000"));
    let phase = |more: &str| error(&format!("[[phase]]\nid = 'p'\n{more}"));
    assert!(phase("ops = {register = 1.0}\nduplicates = 1.0").contains("not from 0 to 0.9"));
    assert!(phase("ops = {put = 1.0}\nduplicates = 0.1").contains("for `register`"));
    assert!(phase("ops = {get = 1.0}\nworkers = 0").contains("phase `p`: workers: `0` is not"));
    assert!(phase("ops = {get = 1.0}\nbatch = 0").contains("phase `p`: batch: `0` is not"));
    assert!(phase("ops = {get = 1.0}\nrate = -1.0").contains("phase `p`: rate: `-1` is not between 0.001"));
    assert!(
        phase("ops = {get = 1.0}\nparts = 0").contains("phase `p`: parts: `0` is not between 1 and 1000")
    );
    assert!(phase("ops = {get = 1.0}\nparts = 4000000000").contains("1 and 1000"));
    assert!(phase("ops = {get = 1.0}\nseconds = inf").contains("more than a day"));
    assert!(phase("ops = {get = 1.0}\nseconds = nan").contains("above 0"));
    assert!(error("phases = ['read-warn']").contains("read-warm"));
    assert!(error("durability = 'always'").contains("each-write"));
    assert!(error("colour = 'red'").contains("colour"));
    assert!(error("cache = 'much'").contains("cache"));
    assert!(error("cache = '-5%'").contains("150%"));
    assert!(error("sweep = '10MB..1kB'").contains("--sweep"));
    // The size itself would fit, but not the sizes around it.
    assert!(error("sweep = '1GB..4GB'").contains("4800000000 B"));
    assert!(resolve("sweep = '1GB..3GB'").is_ok());
    assert!(error("[corpus]\nblobs = 0").contains("--blobs"));
    assert!(error("mix = {reed = 1.0}").contains("read"));
    assert!(error("phases = ['fill', 'read-again']").contains("read phase before it"));
    assert!(error("[[phase]]\nid = 'mixed'\nops = {put = 1.0}\nseconds = 2.0").contains("fixed list"));
}

#[test]
fn blobs_are_put_in_the_order_of_ids_unless_something_else_is_said() {
    let order = |toml: &str, phase: usize| match &resolve(toml).unwrap().phases[phase].action {
        Action::Ops(load) => load.order,
        _ => panic!("a load"),
    };
    assert_eq!(order("", 0), Order::Sequential);
    assert_eq!(order("fill_order = 'random'", 0), Order::Once);
    let own = "[[phase]]\nid = 'p'\nops = {put = 1.0}\n";
    assert_eq!(order(own, 1), Order::Sequential);
    assert_eq!(order(&format!("{own}order = 'once'"), 1), Order::Once);
    // A phase that does more than put has its own order.
    assert_eq!(order(&own.replace("put = 1.0", "put = 1.0, delete = 1.0"), 1), Order::Once);
    assert_eq!(order("phases = ['fill', 'read-warm']", 1), Order::Once);
    assert_eq!(resolve("").unwrap().text.fill_order, Some(FillOrder::Key));
    assert!(error("fill_order = 'id'").contains("random"));
}

#[test]
fn a_candidate_with_a_class_of_its_own_is_in_it_from_the_fill_on() {
    let of = |class: &str, phase: Class| -> Vec<&str> {
        let plan = resolve(&format!(
            "durability = '{class}'\nstores = ['null', 'files/flat', 'files/hashed']\n[set]\n'files/flat.durability' = ['none', 'each-write']"
        ));
        let plan = plan.unwrap();
        plan.candidates.iter().map(|candidate| class_of(candidate, phase, plan.durability).name()).collect()
    };
    assert_eq!(of("on-sync", Class::Fill), ["none", "none", "each-write", "on-sync"]);
    assert_eq!(of("each-write", Class::Fill), ["none", "none", "each-write", "on-sync"]);
    assert_eq!(of("each-write", Class::Asked), ["none", "none", "each-write", "each-write"]);
    // A fill that is part of the measurement must run in the requested class.
    let mix = |stores: &str, more: &str| {
        format!(
            "durability = 'each-write'\nstores = [{stores}]\nmix = {{ put = 1.0 }}\nphases = ['fill']\n{more}"
        )
    };
    assert!(error(&mix("'files/flat'", "")).contains("STORE.durability=each-write"));
    assert!(resolve(&mix("'files/flat[durability=each-write]'", "")).is_ok());
    assert!(
        resolve(&mix("'files/flat'", "[[phase]]\nid = 'fill'\nops = { put = 1.0 }\nshare = 1.0")).is_ok()
    );
}

#[test]
fn reads_are_one_transaction_where_the_phase_or_the_candidate_says_so() {
    let plan = resolve(
        "stores = ['null', 'redb', 'redb[transaction=phase]']\n\
         phases = ['fill', 'read-warm', 'one', 'each', 'read-cold', 'read-again', 'overwrite']\n\
         [[phase]]\nid = 'one'\nops = { get = 1.0 }\ntransaction = 'phase'\n\
         [[phase]]\nid = 'each'\nops = { get = 0.5, range = 0.5 }\ntransaction = 'op'",
    )
    .unwrap();
    let of = |candidate: &Candidate| -> Vec<&str> {
        let is_one = |phase: &&Phase| plan.is_one_transaction(candidate, phase, CorpusId::ONLY);
        plan.phases.iter().filter(is_one).map(|phase| phase.id.as_str()).collect()
    };
    let each: Vec<Vec<&str>> = plan.candidates.iter().map(of).collect();
    assert_eq!(each, [vec![], vec!["one"], vec!["read-warm", "one"]]);
}

#[test]
fn one_transaction_is_for_reads_of_a_store_that_is_not_closed_in_between() {
    let phase = |more: &str| format!("[[phase]]\nid = 'p'\ntransaction = 'phase'\n{more}");
    assert!(resolve(&phase("ops = { get = 1.0 }\ncache = 'cold-start'")).is_ok());
    assert!(error(&phase("ops = { get = 0.9, put = 0.1 }")).contains("only read"));
    assert!(error(&phase("ops = { get = 1.0 }\ncache = 'cold'")).contains("cold-start"));
    let again = phase("ops = { get = 1.0 }\ncache = 'as-is'\nrepeats = 'read-cold'");
    let again = format!("phases = ['fill', 'read-cold', 'p']\n{again}");
    assert!(error(&again).contains("in the passes of the cold phase that it repeats"), "{}", error(&again));
    assert!(error(&phase("ops = { get = 1.0 }").replace("'phase'", "'all'")).contains("phase"));
    let set = |of: &str| error(&format!("stores = ['{of}']"));
    assert!(set("files/flat[transaction=phase]").contains("no transaction that several reads could be in"));
}

#[cfg(feature = "postgres")]
#[test]
fn a_connection_for_each_op_has_no_transaction_over_several() {
    let error = error("stores = ['postgres/bytea[connection=per-op,transaction=phase]']");
    assert!(error.ends_with("a transaction ends with its connection"), "{error}");
}

#[test]
fn a_batch_has_one_kind_of_op() {
    let mixed = "[[phase]]\nid = 'p'\nops = {get = 0.98, overwrite = 0.02}";
    assert!(error(&format!("{mixed}\nbatch = 10")).contains("phase `p`: a batch of 10"));
    assert!(error(&format!("batch = 10\n{mixed}")).contains("give the phase `batch = 1`"));
    assert!(resolve(&format!("batch = 10\n{mixed}\nbatch = 1")).is_ok());
    assert!(resolve("batch = 10\n[[phase]]\nid = 'p'\nops = {get = 1.0}").is_ok());
}

#[test]
fn several_corpora_have_phases_of_their_own() {
    let plan = resolve(
        "stores = ['files/flat']\n[[corpora]]\nname = 'small'\nsource = 'fixed:1kB'\nblobs = 1000\n\
         [[corpora]]\nname = 'large'\nsource = 'fixed:1MB'\nblobs = 10\n\
         [[phase]]\nid = 'pass'\nops = {get = 1.0}\ncorpora = ['large']\nparts = 3\ncount = 5\ncache = 'cold-start'\n\
         [[phase]]\nid = 'again'\nops = {get = 1.0}\nrepeats = 'pass'\nparts = 3\ncount = 5\ncache = 'as-is'",
    )
    .unwrap();
    let ids: Vec<&str> = plan.phases.iter().map(|phase| phase.id.as_str()).collect();
    assert_eq!(ids, ["fill", "pass.01", "pass.02", "pass.03", "again.01", "again.02", "again.03"]);
    assert_eq!(plan.phases[1].cache, CacheState::ColdStart);
    assert_eq!(plan.phases[2].cache, CacheState::AsIs);
    let Some(load) = plan.phases[5].load() else { panic!("a load") };
    assert_eq!(load.repeats.as_deref(), Some("pass.02"));
    assert!(
        plan.has("fill", CorpusId::with_median(1_000))
            && plan.has("pass.02", CorpusId::with_median(1_000_000))
    );
    assert!(!plan.has("pass.02", CorpusId::with_median(1_000)));
    assert_eq!(plan.corpora[0].request.blobs_max, Some(1000));
    assert_ne!(plan.corpora[0].request.seed, plan.corpora[1].request.seed);
}

#[test]
fn parts_of_an_own_phase_are_no_standard_phases() {
    let plan = resolve(
        "stores = ['files/flat']\nphases = ['fill', 'read-warm', 'pass', 'whole']\n[[phase]]\nid = 'pass'\nops = {get = 1.0}\nparts = 2\n\
         [[phase]]\nid = 'whole'\nops = {get = 1.0}",
    )
    .unwrap();
    let own: Vec<&str> =
        plan.phases.iter().map(|phase| phase.id.as_str()).filter(|id| plan.text.defines(id)).collect();
    assert_eq!((own.len(), plan.phases.len()), (3, 5), "{own:?}");
}

#[test]
fn a_phase_may_be_for_some_candidates_only() {
    let phase = |stores: &str| {
        format!(
            "stores = ['null', 'files/flat', 'sqlite', 'sqlite[page_size=16384]']\n[[phase]]\nid = 'p'\nops = {{get = 1.0}}\nparts = 2\ncount = 5\nstores = [{stores}]"
        )
    };
    let plan = resolve(&phase("'files/flat', 'sqlite[page_size=16384]'")).unwrap();
    let does = |phase: &str| -> Vec<&str> {
        plan.candidates
            .iter()
            .filter(|candidate| plan.is_done_by(phase, candidate))
            .map(|candidate| candidate.label.as_str())
            .collect()
    };
    assert_eq!(does("fill").len(), 4);
    assert_eq!(does("p.02"), ["null", "files/flat", "sqlite[page_size=16384]"]);
    // Left out by `--stores`, which is not an error.
    resolve(&phase("'lmdb'")).unwrap();
    assert!(error(&phase("'lmbd'")).contains("`lmdb`"));
    assert!(error(&phase("'sqlite[page_sise=4096]'")).contains("`page_size`"));
    assert!(error(&phase("'sqlite[page_size=1]'")).contains("no value is called `1`"));
    let again =
        phase("'sqlite'") + "\n[[phase]]\nid = 'q'\nops = {get = 1.0}\nparts = 2\ncount = 5\nrepeats = 'p'";
    let plan = resolve(&again).unwrap();
    let does = |candidate: &&Candidate| plan.is_done_by("q.02", candidate) && !candidate.is_baseline();
    assert_eq!(plan.candidates.iter().filter(does).count(), 2);
    assert!(
        error(&phase("'postgres/bytea[url=postgres://u:secret@h/d]'"))
            .ends_with("are not chosen by their `url`")
    );
    let fill = phase("'lmdb'").replace("'p'", "'fill'").replace("parts = 2\n", "");
    assert!(error(&fill).contains("every candidate is filled"));
}

#[test]
fn some_of_several_corpora_are_what_they_are_with_all() {
    let (_, shipped) = SHIPPED.iter().find(|(name, _)| *name == "horak-2010").unwrap();
    let with = |names: &[&str]| {
        let mut text = PlanText::parse(shipped).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        text.keep_corpora(&names).map(|()| text)
    };
    let (all, small) = (with(&["small", "large"]).unwrap(), with(&["small"]).unwrap());
    let large = with(&["large"]).unwrap();
    let whole = PlanText::parse(shipped).unwrap();
    assert_eq!(all.phase, whole.phase);
    assert!(whole.phase.iter().any(|phase| phase.id == "large-1"));
    assert!(small.phase.iter().all(|phase| phase.corpora.iter().all(|name| name == "small")));
    assert!(small.phase.iter().all(|phase| !phase.id.starts_with("large")));
    let seeds = |text: &PlanText| -> Vec<u64> {
        corpora(text, 1.0, 7).unwrap().iter().map(|corpus| corpus.request.seed).collect()
    };
    assert_eq!(seeds(&small)[0], seeds(&whole)[0]);
    assert_eq!(seeds(&large)[0], seeds(&whole)[1]);
    assert_ne!(seeds(&whole)[0], seeds(&whole)[1]);
    let said = |names: &[&str]| format!("{:#}", with(names).unwrap_err());
    assert!(said(&["smal"]).contains("small"), "{}", said(&["smal"]));
    assert!(said(&[]).contains("there are small, large"), "{}", said(&[]));
    let error = PlanText::default().keep_corpora(&["small".to_owned()]).unwrap_err();
    assert!(format!("{error:#}").contains("--files"));
}

#[test]
fn a_candidate_that_cannot_be_had_is_missing_with_its_reason() {
    let plan =
        resolve("stores = ['files/flat']\n[absent]\n'ntfs[sync=none]' = 'a file system of Windows'").unwrap();
    assert_eq!(
        (plan.missing[0].label.as_str(), plan.missing[0].adapter.as_str()),
        ("ntfs[sync=none]", "ntfs")
    );
}

#[cfg(feature = "postgres")]
#[test]
fn a_complete_plan_has_no_password() {
    let plan = resolve(
        "stores = ['postgres/bytea[url=postgres://me:s3cret@h/db]', 'postgres/chunked', 'files/flat']\n\
         reference = 'postgres/bytea[url=postgres://me:s3cret@h/db]'\n\
         [set]\n'postgres/chunked.url' = ['postgres://me:s3cret@h1/db', 'postgres://me:s3cret@h2/db']",
    )
    .unwrap();
    assert_eq!(plan.reference, "postgres/bytea[url=postgres://me:***@h/db]");
    assert_eq!(plan.candidates[2].label, "postgres/chunked[url=postgres://me:***@h2/db]");
    assert_eq!(plan.candidates[2].url().unwrap(), "postgres://me:s3cret@h2/db");
    let text = plan.text.to_toml().unwrap();
    assert!(text.contains("***@h2/db") && !text.contains("s3cret"), "{text}");
}

#[test]
fn read_again_repeats_the_read_before_it() {
    let plan = resolve("phases = ['fill', 'read-cold', 'read-again']").unwrap();
    let Some(load) = plan.phases[2].load() else { panic!("read-again is a load") };
    assert_eq!(load.repeats.as_deref(), Some("read-cold"));
    let passes_of = |phases: &str, phase: &str| {
        let plan = resolve(&format!("phases = [{phases}]")).unwrap();
        plan.cold_phase_of(phase, CorpusId::ONLY).map(|cold| cold.id.clone())
    };
    let both = "'fill', 'read-cold', 'read-again'";
    assert_eq!(passes_of(both, "read-cold").as_deref(), Some("read-cold"));
    assert_eq!(passes_of(both, "read-again").as_deref(), Some("read-cold"));
    assert_eq!(passes_of("'fill', 'read-cold', 'reopen', 'read-again'", "read-again"), None);
    assert_eq!(passes_of("'fill', 'read-warm', 'read-again'", "read-again"), None);
}

#[test]
fn a_successor_follows_what_the_plan_speaks_of_and_says_so() {
    let plan = |of: &str, words: &str| {
        let claim =
            "[[claim]]\nid = 'X'\nstatement = 's'\ncandidates = ['null', 'files/flat']\nexpect = {low = 1.0}";
        let text = format!(
            "stores = ['null', 'files/flat', 'files/hashed']\n{claim}\n[[successor]]\nof = '{of}'\ncandidate = 'files/hashed'\nwords = '{words}'"
        );
        PlanText::parse(&text)
            .unwrap()
            .resolve(false)
            .map(|plan| plan.text.claims(&plan.text.successor.iter().collect::<Vec<_>>()).len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(plan("files/flat", "hashed in place of flat"), Ok(2));
    assert!(plan("files/flt", "hashed in place of flat").unwrap_err().contains("is about `files/flt`"));
    assert!(plan("files/flat", "").unwrap_err().contains("has no `words`"));
}

#[test]
fn a_plan_with_a_log_replays_it_at_the_speeds_that_it_names() {
    let plan = |text: &str| resolve(&format!("stores = ['files/flat']\n{text}"));
    let speeds = |text: &str| -> Vec<(String, Option<f64>)> {
        let phases = plan(text).unwrap().design.phases;
        phases.iter().skip(1).map(|phase| (phase.id.clone(), phase.speed())).collect()
    };
    let log = "[corpus]\ntrace = 'access.log'\n";
    assert_eq!(speeds(log), [("replay".to_owned(), None)]);
    assert_eq!(speeds(&format!("speed = '10'\n{log}")), [("replay".to_owned(), Some(10.0))]);
    let own = format!(
        "{log}[[phase]]\nid = 'slow'\nreplay = '0.5'\nmemory = '25%'\n[[phase]]\nid = 'all'\nreplay = 'max'\n"
    );
    assert_eq!(speeds(&own), [("slow".to_owned(), Some(0.5)), ("all".to_owned(), None)]);
    // What is written down gives the same again, and sizes that nobody gave may be cut by a budget.
    for (sample, kept) in
        [("", 0.0), ("sample = 'auto'\n", 0.0), ("sample = '5%'\n", 1.0), ("bytes = '9MB'\n", 1.0)]
    {
        let first = plan(&format!("{log}{sample}")).unwrap();
        let again = first.text.resolve(true).unwrap();
        for plan in [&first, &again] {
            assert_eq!(plan.corpora[0].kept_share, kept, "{sample}");
            assert_eq!(plan.corpora[0].request.blobs_max, None, "{sample}");
        }
        assert_eq!(first.corpora[0].request, again.corpora[0].request, "{sample}");
    }
    for (text, words) in [
        (own.replace("'0.5'", "'fast'"), "phase `slow`: replay: `fast` is neither `max` nor a factor"),
        (
            own.replace("memory = '25%'", "workers = 2"),
            "takes everything but `memory`, `stores` and `corpora` from the log",
        ),
        (own.replace("trace = 'access.log'", ""), "the phase `slow` replays a log, and there is none"),
        (format!("speed = '1'\n{own}"), "--speed: is that of a replay without a speed of its own"),
        (format!("{log}source = 'tiny'"), "--trace: cannot be used with --corpus"),
        (format!("{log}trace_format = 'apache'"), "--trace-format: no format of logs is called `apache`"),
        (format!("{log}sample = '5%'\nblobs = 9"), "--sample: cannot be used with --blobs"),
        (format!("age = '0..2'\n{log}"), "--age: cannot be used with --trace"),
        ("[[phase]]\nid = 'none'".to_owned(), "`ops` needs at least one kind of op"),
    ] {
        let said = format!("{:#}", plan(&text).err().unwrap());
        assert!(said.contains(words), "{text}: {said}");
    }
}
