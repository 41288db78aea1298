//! Format `email`: an address as in mail headers, bare or in angle brackets after a name, with
//! comments. Groups are rejected, even with a single address.

pub(super) fn is_email(text: &str) -> bool {
    let mut rest = Rest(text);
    rest.address().is_some() && rest.skip_comments().is_some() && rest.0.is_empty()
}

struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, c: char) -> Option<()> {
        self.0 = self.0.strip_prefix(c)?;
        Some(())
    }

    fn address(&mut self) -> Option<()> {
        let start = self.0;
        if self.specification().is_some() {
            return Some(());
        }
        self.0 = start;
        self.skip_space();
        if !self.0.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        self.take('<')?;
        self.specification()?;
        self.take('>')
    }

    /// Parses `local@domain`.
    fn specification(&mut self) -> Option<()> {
        self.skip_space();
        if self.0.starts_with('"') {
            let quoted = self.quoted()?;
            (!quoted.is_empty()).then_some(())?;
        } else {
            self.atom(true)?;
        }
        self.take('@')?;
        self.skip_space();
        if !self.0.starts_with('[') {
            return self.atom(true);
        }
        let (address, after) = self.0.strip_prefix('[')?.split_once(']')?;
        self.0 = after;
        address.parse::<std::net::IpAddr>().ok().map(drop)
    }

    fn atom(&mut self, is_strict: bool) -> Option<()> {
        let end = self.0.find(|c: char| !is_atom(c)).unwrap_or(self.0.len());
        let (atom, after) = self.0.split_at(end);
        self.0 = after;
        let is_dotted = atom.starts_with('.') || atom.ends_with('.') || atom.contains("..");
        if atom.is_empty() || (is_strict && is_dotted) { None } else { Some(()) }
    }

    /// Parses one or more words.
    fn phrase(&mut self) -> Option<()> {
        self.word()?;
        loop {
            self.skip_comments()?;
            if self.0.is_empty() || self.word().is_none() {
                return Some(());
            }
        }
    }

    fn word(&mut self) -> Option<()> {
        self.skip_space();
        if self.0.starts_with('"') { self.quoted().map(drop) } else { self.atom(false) }
    }

    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.0.strip_prefix('"')?.chars();
        loop {
            let c = match chars.next()? {
                '"' => break,
                '\\' => chars.next()?,
                c => c,
            };
            (is_visible(c) || matches!(c, ' ' | '\t')).then_some(())?;
            text.push(c);
        }
        self.0 = chars.as_str();
        Some(text)
    }

    fn skip_comments(&mut self) -> Option<()> {
        self.skip_space();
        while self.take('(').is_some() {
            self.comment()?;
            self.skip_space();
        }
        Some(())
    }

    /// Skips to the end of a comment, which may contain nested comments.
    fn comment(&mut self) -> Option<()> {
        let mut depth = 1;
        let mut chars = self.0.chars();
        while depth > 0 {
            match chars.next()? {
                '\\' => drop(chars.next()),
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
        }
        self.0 = chars.as_str();
        Some(())
    }
}

fn is_visible(c: char) -> bool {
    ('!'..='~').contains(&c) || !c.is_ascii()
}

fn is_atom(c: char) -> bool {
    is_visible(c) && !matches!(c, '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"')
}
