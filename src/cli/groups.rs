//! `blobwise --help`: commands grouped by purpose.

use clap::builder::StyledStr;

use crate::report::terminal::{WIDTH, behind, folded};

const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &["run", "page", "crash", "disk"]),
    ("Answer from what was measured", &["report", "explain", "compare"]),
    ("Look up", &["list", "corpus", "trace"]),
    ("Check a store, a server, and the harness itself", &["check-store", "doctor", "selftest"]),
    ("Help your shell", &["completions"]),
];

const NAME: usize = 13;

/// Sets the help template that lists the commands in groups.
pub fn grouped(command: clap::Command) -> clap::Command {
    let text = template(&command);
    command.help_template(StyledStr::from(text))
}

fn template(command: &clap::Command) -> String {
    let styles = command.get_styles();
    let styled = |style: &clap::builder::styling::Style, text: &str| {
        format!("{}{text}{}", style.render(), style.render_reset())
    };
    let header = |title: &str| styled(styles.get_header(), &format!("{title}:"));
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = folded(&about, WIDTH).join("\n");
    let mut text = format!("{about}\n\n{{usage-heading}} {{usage}}\n");
    for (title, names) in GROUPS {
        text += &format!("\n{}\n", header(title));
        for name in *names {
            let Some(known) = command.find_subcommand(name) else { continue };
            let about = known.get_about().map(ToString::to_string).unwrap_or_default();
            let lines = behind(&format!("  {name:<NAME$}"), &about);
            text += &lines.replacen(name, &styled(styles.get_literal(), name), 1);
        }
    }
    let options = header("Options");
    text + &format!(
        "\n{options}\n{{options}}\n\nThe flags of a command: `blobwise run -h`; more about each: `--help`\n"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let known: BTreeSet<String> = Arguments::command()
            .get_subcommands()
            .filter(|known| !known.is_hide_set())
            .map(|known| known.get_name().to_owned())
            .collect();
        assert_eq!(grouped.len(), known.len(), "none is there twice");
        assert!(grouped.iter().all(|name| known.contains(*name)), "{grouped:?} {known:?}");
    }

    /// What a machine can tell of a good line: `-h` has one for each flag, of at most twelve words before its default.
    #[test]
    fn a_flag_is_told_in_twelve_words() {
        let mut wrong = Vec::new();
        for command in Arguments::command().get_subcommands() {
            for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
                let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
                let words = help.split(" [").next().unwrap_or_default().split_whitespace().count();
                if words == 0 || words > 12 {
                    wrong.push(format!("{} {}: {help}", command.get_name(), flag.get_id()));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
