//! Several plans and the one page of them.

use crate::program::{Outcome, Work};
use crate::signals::{run_until, wait};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a plan of plans makes one page, also where one cannot run", one_page),
        Trial::test("a plan of plans is gone on with where it was stopped", gone_on_with),
        Trial::test("a plan of plans is run as it is", as_it_is),
        Trial::test("a plan of plans keeps others from its directories", held),
    ]
}

const CLAIM: &str = r#"
[[claim]]
id = "A-1"
statement = "Memory is faster than files"
phase = "read-warm"
candidates = ["memory", "files/hashed"]
expect = { high = 1.0 }
"#;

/// Two plans that run, one that cannot, and the plan of all three.
fn prepare(work: &Work) -> Outcome {
    let plan = |name: &str, stores: &str, claim: &str| {
        format!(
            "name = '{name}'\nabout = 'About {name}.'\nstores = {stores}\nphases = ['fill', 'read-warm']\nrounds = 2\n\
             [corpus]\nblobs = 10\n{claim}"
        )
    };
    std::fs::write(work.path("a.toml"), plan("first", "['files/hashed', 'memory']", CLAIM))?;
    std::fs::write(work.path("b.toml"), plan("second", "['mssql/filestream']", ""))?;
    std::fs::write(work.path("c.toml"), plan("third", "['files/flat']", ""))?;
    std::fs::write(
        work.path("both.toml"),
        "name = 'both'\nabout = 'All of them.'\nplans = ['a.toml', 'b.toml', 'c.toml']\n",
    )?;
    Ok(())
}

fn one_page() -> Outcome {
    let work = Work::new();
    prepare(&work)?;
    let said = work.say("run both.toml --quiet --out out").ended(1);
    let line = said.stdout.lines().find(|line| line.starts_with("second")).ok_or("no line of the second")?;
    assert!(line.contains("not run: none of the stores can run here"), "{line}");
    let page = std::fs::read_to_string(work.path("out/report.html"))?;
    for text in
        ["All of them.", "About first.", "A-1", "first/report.html", "It was not run: ", "third/report.html"]
    {
        assert!(page.contains(text), "no `{text}` in the page");
    }
    std::fs::remove_file(work.path("out/report.html"))?;
    let said = work.say("report out").ended(0);
    assert!(said.stdout.lines().any(|said| said == line), "{}", said.stdout);
    assert_eq!(std::fs::read_to_string(work.path("out/report.html"))?, page);
    let said = work.say("report out --markdown").ended(0);
    assert!(said.stdout.contains("| `first` | Memory is faster than files (A-1) |"), "{}", said.stdout);
    let said = work.say("report out/first --markdown").ended(0);
    assert!(said.stdout.starts_with("# first\n"), "{}", said.stdout);
    for file in ["first/result.json", "first/report.html", "third/result.json", "plan.toml"] {
        assert!(work.path("out").join(file).is_file(), "no {file}");
    }
    Ok(())
}

fn gone_on_with() -> Outcome {
    let work = Work::new();
    prepare(&work)?;
    work.say("run both.toml --quiet --out out --seed 7").ended(1);
    let first = std::fs::read(work.path("out/first/result.json"))?;
    std::fs::remove_dir_all(work.path("out/third"))?;
    // What one leaves that was killed in its pilot.
    std::fs::create_dir(work.path("out/third"))?;
    std::fs::write(work.path("out/third/plan.toml"), "stores = ['null']")?;
    std::fs::remove_file(work.path("out/report.html"))?;
    work.say("run --resume out --preview --quiet").ended(1);
    assert!(std::fs::read(work.path("out/first/result.json"))? == first, "what was complete was run again");
    let third = std::fs::read_to_string(work.path("out/third/plan.toml"))?;
    assert!(third.contains("seed = 7"), "another seed: {third}");
    assert!(work.path("out/report.html").is_file());
    Ok(())
}

fn held() -> Outcome {
    let work = Work::new();
    prepare(&work)?;
    let child = run_until(&work, "run both.toml --verbose --out out", "fill", 1);
    let holder = format!("another run of blobwise (process {}) writes to `out", child.id());
    for line in ["run both.toml --out out", "run --resume out", "run --resume out/first", "report out"] {
        work.say(line).refused(&[&holder]);
    }
    wait(child).ended(1);
    Ok(())
}

fn as_it_is() -> Outcome {
    let work = Work::new();
    prepare(&work)?;
    let said = work.say("run both.toml --stores null --out out").ended(2);
    assert!(said.stderr.contains("to change anything else run one of its plans by name"), "{}", said.stderr);
    let said = work.say("run both.toml --scale 1000 --out out").ended(2);
    assert!(said.stderr.contains("the plan `a.toml`: --scale: `1000` must be above 0"), "{}", said.stderr);
    std::fs::write(work.path("twice.toml"), "plans = ['a.toml', 'a.toml']")?;
    let said = work.say("run twice.toml --out out").ended(2);
    assert!(said.stderr.contains("`a.toml` cannot use the directory `first`"), "{}", said.stderr);
    for name in ["", ".", "..", "../x", "a/b"] {
        let plan = format!("name = '{name}'\nstores = ['memory']\nphases = ['fill']\nrounds = 1\n");
        std::fs::write(work.path("b.toml"), plan)?;
        std::fs::write(work.path("elsewhere.toml"), "plans = ['b.toml']")?;
        let said = work.say("run elsewhere.toml --quiet --out out").ended(2);
        assert!(
            said.stderr.contains(&format!("`b.toml` cannot use the directory `{name}`")),
            "{}",
            said.stderr
        );
    }
    assert!(!work.path("out").exists());
    Ok(())
}
