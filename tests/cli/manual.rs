//! What shells and `man` are told of the command line: all of it, and nothing else.

use std::process::Command;

use super::program::{Outcome, Said, Work, finish};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("the manual has a page for every command and a paragraph for every flag", manual),
        Trial::test("completions for shells know every command", completions),
    ]
}

/// The commands that the program's help names.
fn commands(work: &Work) -> Vec<String> {
    let help = work.say("--help").ended(0).stdout;
    let listed = help.lines().take_while(|line| *line != "Options:");
    // What a line goes on with stands further to the right.
    let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names = names.filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

fn manual() -> Outcome {
    let work = Work::new();
    work.say("man pages/of/it").ended(0);
    let mut pages = work.names("pages/of/it");
    pages.sort();
    let commands = commands(&work);
    assert!(commands.len() > 10, "{commands:?}");
    let mut named: Vec<String> = commands.iter().map(|name| format!("blobwise-{name}.1")).collect();
    named.push("blobwise.1".to_owned());
    named.sort();
    assert_eq!(pages, named);
    let page = |name: &str| -> std::io::Result<String> {
        Ok(std::fs::read_to_string(work.path("pages/of/it").join(name))?.replace("\\-", "-"))
    };
    let whole = page("blobwise.1")?;
    for name in commands {
        assert!(whole.contains(&format!("blobwise-{name}(1)")), "{name}: {whole}");
        let (help, page) =
            (work.say(&format!("{name} --help")).ended(0).stdout, page(&format!("blobwise-{name}.1"))?);
        // A second name of a flag is not in the manual. It may stand on a line of its own.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let flags = help.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '-'));
        let second = help.split("[alias: ").skip(1).filter_map(|rest| rest.split(']').next());
        let second: Vec<&str> = second.collect();
        for flag in flags.filter(|word| word.starts_with("--") && word.len() > 2 && !second.contains(word)) {
            assert!(page.contains(flag), "{name}: {flag} is not in {page}");
        }
    }
    std::fs::write(work.path("file"), "")?;
    work.say("man file").refused(&["no pages of the manual can be written to file"]);
    Ok(())
}

fn completions() -> Outcome {
    let work = Work::new();
    let commands = commands(&work);
    for shell in ["bash", "zsh", "fish"] {
        let script = work.say(&format!("completions {shell}")).ended(0).stdout;
        for word in commands.iter().map(String::as_str).chain(["rounds", "fail-on-refuted"]) {
            assert!(script.contains(word), "{shell}: no {word}");
        }
        std::fs::write(work.path(shell), script)?;
    }
    // Bash is where the tests run, so that it is asked itself.
    let asked = |words: &str, last: usize| -> Said {
        let ask = format!(
            "source ./bash; COMP_WORDS=({words}); COMP_CWORD={last}; _blobwise blobwise \"${{COMP_WORDS[{last}]}}\" \
             \"${{COMP_WORDS[{last}-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        finish(Command::new("bash").args(["-euc", &ask]).current_dir(work.path("."))).ended(0)
    };
    assert_eq!(asked("blobwise com", 1).stdout, "compare\ncompletions\n");
    assert_eq!(asked("blobwise run --fail", 2).stdout, "--fail-on-refuted\n");
    work.say("completions csh").refused(&["no value is called `csh`", "zsh"]);
    Ok(())
}
