//! Removes values from query texts, because SQL Server keeps the texts with their values.

/// Replaces each value by `?`: text in single or double quotes, numbers and bytes. Comments are removed. After a quote that is
/// not closed, as in a truncated text, everything counts as a value.
pub(super) fn without_values(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(sign) = rest.next() {
        match sign {
            '-' if rest.peek() == Some(&'-') => {
                rest.by_ref().find(|sign| *sign == '\n');
                said.push(' ');
            }
            '/' if rest.peek() == Some(&'*') => {
                skip_remark(&mut rest);
                said.push(' ');
            }
            // With an old session setting, double quotes enclose a value instead of a name; the setting is not known here.
            '\'' | '"' => {
                skip_quoted(&mut rest, sign);
                said.push('?');
            }
            '[' => {
                said.push(sign);
                said.extend(rest.by_ref().take_while(|sign| *sign != ']'));
                said.push(']');
            }
            sign if sign.is_ascii_digit() => {
                while rest.next_if(|sign| sign.is_alphanumeric() || *sign == '.').is_some() {}
                said.push('?');
            }
            sign if sign != '$' && is_of_name(sign) => {
                let mut name = String::from(sign);
                while let Some(sign) = rest.next_if(|sign| is_of_name(*sign)) {
                    name.push(sign);
                }
                // The `N` prefix of a Unicode text belongs to the text.
                let is_sign = name.eq_ignore_ascii_case("n") && rest.peek() == Some(&'\'');
                said.push_str(if is_sign { "" } else { &name });
            }
            sign => said.push(sign),
        }
    }
    said
}

fn is_of_name(sign: char) -> bool {
    sign.is_alphanumeric() || ['_', '@', '#', '$'].contains(&sign)
}

/// Skips to the end of a quoted text; a doubled quote is part of the text.
fn skip_quoted(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, quote: char) {
    while let Some(sign) = rest.next() {
        if sign == quote && rest.next_if_eq(&quote).is_none() {
            return;
        }
    }
}

/// Skips to the end of a comment, which may be nested.
fn skip_remark(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let mut depth = 1;
    rest.next();
    while depth > 0 {
        match rest.next() {
            Some('*') if rest.next_if_eq(&'/').is_some() => depth -= 1,
            Some('/') if rest.next_if_eq(&'*').is_some() => depth += 1,
            Some(_) => {}
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_signs_and_names_stay() {
        for (text, digest) in [
            (
                "SELECT * FROM t1 WHERE a = 'secret' AND b=N'it''s' AND c > 42",
                "SELECT * FROM t1 WHERE a = ? AND b=? AND c > ?",
            ),
            ("WHERE [order 66] = 0xDEAD OR x = -1.5e3", "WHERE [order 66] = ? OR x = -?"),
            ("x = $5.20 -- secret\nAND y = @P1", "x = $?  AND y = @P1"),
            ("a /* s /* e */ cret */ b", "a   b"),
            ("name = \"secret\"", "name = ?"),
            ("a = 'cut off in its mid", "a = ?"),
            ("a /* cut off", "a  "),
            ("IN (1,2,3)", "IN (?,?,?)"),
            ("N = 1 AND n.id = 7", "N = ? AND n.id = ?"),
        ] {
            assert_eq!(without_values(text), digest);
        }
    }
}
