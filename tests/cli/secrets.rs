//! What is never written: passwords of URLs, in whichever form they were given, and signs that a terminal obeys.

use blobwise::engine::work::ResolvePlan;
use std::path::Path;

use blobwise::plan::{OneOrMany, PlanText};
use blobwise::store::Values;
use blobwise::stores;

use crate::program::{BLOBWISE, Outcome, Said, Work, finish};
use crate::trials::Trial;

/// What must not be found.
const SECRET: &str = "s3cr3t-of-theirs";
/// Forms of a URL with that in it; `SCHEME` stands for the store's family.
const FORMS: &[&str] = &[
    "SCHEME://me:SECRET@127.0.0.1:1/db",
    "SCHEME://:SECRET@127.0.0.1:1/0",
    "SCHEME://me:SECRET@127.0.0.1:1,127.0.0.1:2/db",
    "SCHEME://me:with/SECRET@127.0.0.1:1/db",
    "SCHEME://me:with?SECRET@127.0.0.1:1/db",
    "SCHEME://me:with#SECRET@127.0.0.1:1/db",
    "SCHEME://me:with@SECRET@127.0.0.1:1/db",
    "SCHEME://me:with SECRET@127.0.0.1:1/db",
    "SCHEME://me:with,SECRET@127.0.0.1:1/db",
    "SCHEME://me:%73%33cr3t-of-theirs@127.0.0.1:1/db",
    "SCHEME://me:SECRET",
    "SCHEME://127.0.0.1:1/db?password=SECRET",
    "SCHEME://127.0.0.1:1/db?user=me&password=SECRET",
    "SCHEME://127.0.0.1:1/db?sslpassword=SECRET&w=1",
    "SCHEME://127.0.0.1:1/db?pass%77ord=SECRET",
    "SCHEME://127.0.0.1:1/db?password=with@SECRET",
    "SCHEME://127.0.0.1:1/db?unheard_of=SECRET",
    "SCHEME://127.0.0.1:1/db?authMechanismProperties=AWS_SESSION_TOKEN:SECRET",
    "SCHEME://127.0.0.1:1/db?X-Amz-Security-Token=SECRET",
    "SCHEME://127.0.0.1:1/db#password=SECRET",
    "SCHEME://127.0.0.1:1;user=sa;password=SECRET",
    "me:SECRET@127.0.0.1:1/db",
    "Server=127.0.0.1,1;User Id=sa;Password=SECRET;Encrypt=no",
    "Server=127.0.0.1,1;User Id=sa;Pwd={with; SECRET}",
];

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("the secret of a URL is in no plan, label or error, whatever the store", plans),
        Trial::test("a flag that is not known is refused without the secret in it", unknown_flag),
        Trial::test("a plan whose URL has lost its password says how to run it", without_password),
        Trial::test("names are no orders to a terminal", terminal),
        Trial::test("names of files are no formulas", formulas),
    ];
    let mut families: Vec<&str> = with_url().map(stores::family).collect();
    families.dedup();
    for family in families {
        let name = format!("no error of {family} has the secret of its URL");
        trials.push(Trial::test(name, move || errors(family)));
    }
    trials
}

/// Stores that may be a server of the user's.
fn with_url() -> impl Iterator<Item = &'static str> {
    let has_url = |spec: &&blobwise::store::OptionSpec| matches!(spec.values, Values::Url);
    stores::adapters()
        .filter(move |adapter| adapter.options.iter().any(|spec| has_url(&spec)))
        .map(|adapter| adapter.name)
}

fn scheme(family: &str) -> &str {
    if family == "s3" { "http" } else { family }
}

fn url(form: &str, family: &str) -> String {
    form.replace("SCHEME", scheme(family)).replace("SECRET", SECRET)
}

#[track_caller]
fn has_no_secret(text: &str, of: &str) {
    // Also what is left of it when its escapes were read.
    for secret in [SECRET, "%73%33cr3t"] {
        assert!(!text.contains(secret), "the secret of {of} is in: {text}");
    }
}

fn written_has_no_secret(below: &Path, of: &str) {
    for entry in walkdir::WalkDir::new(below).into_iter().filter_map(Result::ok) {
        has_no_secret(&entry.path().display().to_string(), of);
        if entry.file_type().is_file() && entry.file_name() != "given.toml" {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            has_no_secret(&String::from_utf8_lossy(&bytes), of);
        }
    }
}

/// Every store and every form: what a plan says of itself, and why it is refused.
fn plans() -> Outcome {
    for name in with_url() {
        for form in FORMS {
            let url = url(form, stores::family(name));
            let text = PlanText {
                stores: Some(vec![name.to_owned()]),
                set: [(format!("{name}.url"), OneOrMany::One(url.clone()))].into(),
                ..PlanText::default()
            };
            match text.resolve(true) {
                Ok(plan) => {
                    has_no_secret(&plan.text.to_toml()?, &url);
                    for candidate in &plan.candidates {
                        has_no_secret(&format!("{} {:?}", candidate.label, candidate.options.shown()), &url);
                    }
                }
                Err(error) => has_no_secret(&blobwise::redact::of_error(&format!("{error:#}")), &url),
            }
        }
    }
    Ok(())
}

/// Runs with each form as a flag, in a plan, and in a candidate's label; nobody answers, or the form is refused.
fn errors(family: &'static str) -> Outcome {
    let store = with_url().find(|name| stores::family(name) == family).ok_or("no store")?;
    let line = ["--blobs", "2", "--rounds", "1", "--phases", "fill", "--op-timeout", "200ms", "--out", "out"];
    for (index, form) in FORMS.iter().enumerate() {
        let work = Work::new();
        let url = url(form, family);
        let set = format!("{store}.url={url}");
        // Each way is another place for a mistake; all of them for every form would take minutes.
        let way = match index % 3 {
            0 => vec!["run".to_owned(), "--stores".into(), store.into(), "--set".into(), set],
            1 => vec!["run".to_owned(), "--stores".into(), format!("{store}[url={url}]")],
            _ => {
                let plan = format!("stores = ['{store}']\nset = {{ '{store}.url' = '{url}' }}\n");
                std::fs::write(work.path("given.toml"), plan)?;
                vec!["run".to_owned(), "given.toml".into()]
            }
        };
        let said = work.run(way.iter().map(String::as_str).chain(line));
        let Said { code, stdout, stderr } = said.refused(&[]);
        assert_eq!(code, Some(2));
        has_no_secret(&stdout, &url);
        has_no_secret(&stderr, &url);
        written_has_no_secret(&work.path("."), &url);
    }
    // The last way: by the environment.
    let work = Work::new();
    let given = url(FORMS[0], family);
    let variable = format!("BLOBWISE_{}_URL", family.to_uppercase());
    let said =
        finish(work.command(BLOBWISE).args(["run", "--stores", store]).args(line).env(variable, &given));
    has_no_secret(&said.refused(&[]).stderr, &given);
    written_has_no_secret(&work.path("."), &given);
    Ok(())
}

fn unknown_flag() -> Outcome {
    let work = Work::new();
    for arguments in [
        vec!["run".to_owned(), format!("--url=redis://:{SECRET}@127.0.0.1")],
        vec!["run".to_owned(), format!("redis://:{SECRET}@127.0.0.1/plan.toml")],
        vec!["run".to_owned(), "--set".into(), format!("redis://:{SECRET}@127.0.0.1")],
        vec!["run".to_owned(), "--blobs".into(), format!("redis://:{SECRET}@127.0.0.1")],
    ] {
        has_no_secret(&work.run(&arguments).refused(&[]).stderr, &arguments.join(" "));
    }
    std::fs::write(work.path("given.toml"), format!("set = {{ a = 'redis://:{SECRET}@h' "))?;
    has_no_secret(&work.say("run given.toml").refused(&["given.toml"]).stderr, "a plan that is no TOML");
    Ok(())
}

/// Signs that clear a screen, set a title, or turn the direction of writing around.
const ORDERS: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}gpj\u{2066}\r";

fn has_no_order(text: &str) {
    let is_order = |c: char| (c.is_control() && !"\n\t".contains(c)) || "\u{202e}\u{2066}".contains(c);
    assert!(!text.contains(is_order), "{text:?}");
}

fn terminal() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("files"))?;
    std::fs::write(work.path("files").join(format!("{ORDERS}.jpg")), "not empty")?;
    let directory = format!("files{ORDERS}");
    std::fs::rename(work.path("files"), work.path(&directory))?;
    let run = "run --stores memory --rounds 1 --phases fill,read-warm --quiet --out out";
    let said = work.run(run.split(' ').chain(["--files", directory.as_str()])).ended(0);
    has_no_order(&(said.stdout + &said.stderr));
    for arguments in [
        ["corpus", "--files", &directory],
        ["corpus", "--json", &format!("--files={directory}")],
        ["run", "--stores", ORDERS],
        ["run", "--nothing", ORDERS],
        ["report", "--markdown", &directory],
    ] {
        let said = work.run(arguments);
        has_no_order(&(said.stdout + &said.stderr));
    }
    // A result that others wrote.
    let path = work.path("out/result.json");
    let mut foreign: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    foreign["candidates"][0]["facts"]["version"] = ORDERS.into();
    foreign["answer"] = serde_json::json!([ORDERS]);
    foreign["warnings"] = serde_json::json!([{"kind": "other-version", "store": ORDERS, "change": ORDERS}]);
    foreign["program"]["command"] = ORDERS.into();
    foreign["machine"]["processor"] = ORDERS.into();
    std::fs::write(&path, serde_json::to_vec(&foreign)?)?;
    for line in ["report out", "report --markdown out", "compare out out"] {
        let said = work.say(line);
        has_no_order(&(said.stdout + &said.stderr));
    }
    has_no_order(&std::fs::read_to_string(work.path("out/report.html"))?);
    Ok(())
}

fn formulas() -> Outcome {
    let work = Work::new();
    std::fs::create_dir(work.path("files"))?;
    for name in ["=1+2", "+3", "-cmd", "@sum", "\t=1", "plain"] {
        std::fs::write(work.path("files").join(name), format!("the bytes of {name}"))?;
    }
    work.say("run --stores memory --files files --rounds 1 --phases fill --quiet --out out").ended(0);
    let mut reader = csv::Reader::from_path(work.path("out/corpus.csv"))?;
    let mut names: Vec<String> =
        reader.records().map(|record| record.map(|record| record[3].to_owned())).collect::<Result<_, _>>()?;
    names.sort();
    assert_eq!(names, ["'\t=1", "'-cmd", "'=1+2", "'@sum", "+3", "plain"]);
    Ok(())
}

fn without_password() -> Outcome {
    let work = Work::new();
    let plan = "stores = ['postgres/bytea']\nset = { 'postgres.url' = 'postgres://me:***@127.0.0.1:1/db' }\n";
    std::fs::create_dir(work.path("their run"))?;
    std::fs::write(work.path("their run/plan.toml"), plan)?;
    let way = "the password of this URL was not stored: run it again with `blobwise run 'their run/plan.toml' --set NAME.url=URL`";
    work.run(["run", "their run/plan.toml"]).refused(&[way]);
    let given =
        ["run", "--stores", "postgres/bytea", "--set", "postgres.url=postgres://me:***@127.0.0.1:1/db"];
    let said = work.run(given).refused(&["the password of this URL was not stored"]);
    assert!(!said.stderr.contains("plan.toml"), "{}", said.stderr);
    Ok(())
}
