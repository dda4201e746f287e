//! Missing privileges of a server's user: one error lists all of them as the statements that grant them.

use std::fmt;

use crate::units;

/// A statement that grants privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Text before the privileges.
    pub before: String,
    /// The privileges, as the server spells them.
    pub rights: Vec<String>,
    /// Separator between two privileges.
    pub between: &'static str,
    /// Text after the privileges.
    pub after: String,
}

impl Grant {
    /// SQL that grants privileges on an object.
    pub fn on_object(object: &str, rights: Vec<String>, user: &str) -> Grant {
        Grant { before: "GRANT ".to_owned(), rights, between: ", ", after: format!(" ON {object} TO {user}") }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.before, self.rights.join(self.between), self.after)
    }
}

/// All privileges that a user lacks for a run.
#[derive(Clone, Debug, thiserror::Error)]
pub struct MissingRights {
    /// The user, as the server names it.
    pub user: String,
    /// How an administrator grants them.
    pub by: &'static str,
    /// The statements; those without privileges are left out.
    pub grants: Vec<Grant>,
    /// Separator between two statements.
    pub between: &'static str,
}

impl MissingRights {
    /// Privileges that SQL grants.
    pub fn sql(user: &str, grants: Vec<Grant>) -> MissingRights {
        MissingRights { user: user.to_owned(), by: "these statements give them", grants, between: "; " }
    }

    /// Returns `self` as an error if any privilege is missing.
    pub fn refuse(mut self) -> super::Result<()> {
        self.grants.retain(|grant| !grant.rights.is_empty());
        if self.grants.is_empty() { Ok(()) } else { Err(super::Error::failed(self)) }
    }

    /// Merges what the same user lacks for another candidate.
    pub fn join(&mut self, other: MissingRights) {
        for grant in other.grants {
            let is_same = |known: &&mut Grant| known.before == grant.before && known.after == grant.after;
            match self.grants.iter_mut().find(is_same) {
                Some(known) => {
                    known.rights.extend(grant.rights);
                    known.rights = units::distinct(std::mem::take(&mut known.rights));
                }
                None => self.grants.push(grant),
            }
        }
    }
}

impl fmt::Display for MissingRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statements: Vec<String> = self.grants.iter().map(Grant::to_string).collect();
        let statements = statements.join(self.between);
        write!(f, "the user `{}` lacks rights that the run needs; {}: {statements}", self.user, self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(rights: &[&str], after: &str) -> MissingRights {
        let rights = rights.iter().map(|right| (*right).to_owned()).collect();
        let grant = Grant { before: "GRANT ".to_owned(), rights, between: ", ", after: after.to_owned() };
        MissingRights::sql("bench", vec![grant])
    }

    #[test]
    fn what_two_candidates_lack_is_one_list() {
        let mut all = lacks(&["CREATE", "DROP"], " ON a TO bench");
        all.join(lacks(&["DROP", "REFERENCES"], " ON a TO bench"));
        all.join(lacks(&["RELOAD"], " ON b TO bench"));
        assert_eq!(
            all.to_string(),
            "the user `bench` lacks rights that the run needs; these statements give them: \
             GRANT CREATE, DROP, REFERENCES ON a TO bench; GRANT RELOAD ON b TO bench"
        );
    }
}
